"""``python -m calsched`` is the command line."""

from calsched.cli.main import run

if __name__ == "__main__":
    run()
