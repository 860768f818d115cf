"""The command line: words over compose. Nothing slow is imported before a command needs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    from duetime.cli.door import run

    return run(sys.argv[1:] if arguments is None else arguments)
