"""`python -m counterpoint` is the command `counterpoint`."""

from counterpoint.cli import program

if __name__ == "__main__":
    program()
