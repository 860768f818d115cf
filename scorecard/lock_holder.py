"""Holds the write lock of a SQLite file while it is told to: `python -m scorecard.lock_holder FILE`."""

from __future__ import annotations

import sys

import apsw


def main(path: str) -> None:
    held: apsw.Connection | None = None
    for line in sys.stdin:
        if held is not None:
            held.close()
            held = None
        if line.strip() == "hold":
            held = apsw.Connection(path)
            held.set_busy_timeout(5000)
            held.execute("BEGIN IMMEDIATE")
        print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
