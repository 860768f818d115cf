"""`python -m scorecard`: run the lines, print one table, and fail when a line falls short.

The environment chooses: `FULL=1` the stated counts, written to docs/scorecard.md; `SMALL=1` a few of each sort;
`LINE=name` (or several, separated by commas) only those lines.
"""

from __future__ import annotations

import logging
import os
import sys

from scorecard.line import Scale
from scorecard.lines import LINES, chosen
from scorecard.running import run_line
from scorecard.table import print_head, print_row, write_row


def main() -> int:
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


def _scale() -> Scale:
    if os.environ.get("FULL") == "1":
        return Scale.FULL
    return Scale.SMALL if os.environ.get("SMALL") == "1" else Scale.TENTH


if __name__ == "__main__":
    sys.exit(main())
