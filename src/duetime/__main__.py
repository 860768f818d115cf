"""`python -m duetime`, for where the command itself is not on the path."""

import sys

from duetime.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
