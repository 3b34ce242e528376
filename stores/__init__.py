"""The ledger: one row for every due time, one transaction for every verb."""

if __name__ != "calsched.stores":
    raise ImportError("import calsched.stores, not stores: the folder is mapped into the calsched package")
