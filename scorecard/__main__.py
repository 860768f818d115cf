"""`python -m scorecard`: run the lines, print one table, and fail when a line falls short.

The environment chooses: `FULL=1` the stated counts, written to docs/scorecard.md; `SMALL=1` a few of each sort;
`LINE=name` (or several, separated by commas) only those lines. There are no other arguments.
"""

from __future__ import annotations

import logging
import os
import sys
import textwrap
from collections.abc import Sequence

from scorecard.line import Scale
from scorecard.lines import LINES, chosen
from scorecard.running import run_line
from scorecard.table import print_head, print_row, write_row


def main(arguments: Sequence[str] = ()) -> int:
    if arguments:
        return _help(asked_for=set(arguments) <= {"-h", "--help"})
    logging.basicConfig(level=logging.CRITICAL)  # what goes wrong here goes wrong on purpose
    scale = _scale()
    lines = chosen(os.environ.get("LINE", ""))
    print(f"scorecard: {len(lines)} lines, {scale} counts\n", flush=True)
    print_head()
    failed = []
    for line in lines:
        row = run_line(line, scale)
        print_row(row)
        if scale is Scale.FULL:
            write_row(row, LINES)
        if not row.result.passed:
            failed.append(line.name)
    print(f"\nfell short: {', '.join(failed)}" if failed else "\nevery line holds", flush=True)
    return 1 if failed else 0


def _help(*, asked_for: bool) -> int:
    names = textwrap.fill(", ".join(line.name for line in LINES), 100, break_on_hyphens=False)
    print(f"{__doc__}\nLines:\n{names}", file=sys.stdout if asked_for else sys.stderr)
    return 0 if asked_for else 2


def _scale() -> Scale:
    if os.environ.get("FULL") == "1":
        return Scale.FULL
    return Scale.SMALL if os.environ.get("SMALL") == "1" else Scale.TENTH


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
