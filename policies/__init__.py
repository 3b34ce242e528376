"""Pure decisions: values and ``now`` in, a decision out. Standard library only; no policy imports another."""

if __name__ != "calsched.policies":
    raise ImportError("import calsched.policies, not policies: the folder is mapped into the calsched package")
