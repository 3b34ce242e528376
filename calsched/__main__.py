"""``python -m calsched`` is the command line."""

from calsched.entry import run

if __name__ == "__main__":
    run()
