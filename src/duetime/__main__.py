"""`python -m duetime`, for where the command itself is not on the path."""

import os
import sys

# Without -P, Python searches the current folder first, which may be anybody's; it stays if Duetime itself is in it.
if not sys.flags.safe_path and sys.path[0] == os.getcwd() != os.path.abspath(f"{__file__}/../.."):  # noqa: PTH100, PTH109
    del sys.path[0]

from duetime.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
