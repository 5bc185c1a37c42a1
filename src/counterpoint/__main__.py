"""`python -m counterpoint` is the command `counterpoint`."""

import sys

from counterpoint.cli import main

if __name__ == "__main__":
    sys.exit(main())
