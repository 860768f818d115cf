"""Standard input and output as a wire that carries protocol and nothing else, from the first line of a process on.

The SDK would take them when it begins to serve and give them back when it ends; what a task printed without flushing
would then follow the protocol, and what a task module prints while it is imported would come before it. Here they are
taken before anything else runs, and never given back.
"""

from __future__ import annotations

import io
import os
import sys
from typing import NamedTuple


class Wire(NamedTuple):
    read: io.TextIOWrapper
    write: io.TextIOWrapper


def claim() -> Wire:
    """From here on, whoever prints prints to standard error, and whoever reads standard input finds it empty."""
    read = io.TextIOWrapper(os.fdopen(os.dup(0), "rb"), encoding="utf-8", errors="replace")
    write = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), encoding="utf-8", newline="\n")
    _point(0, os.O_RDONLY)
    try:
        os.dup2(2, 1)
        sys.stdout = sys.stderr
    except OSError:  # standard error is closed: then nobody wants to hear it
        _point(1, os.O_WRONLY)
    return Wire(read, write)


def _point(descriptor: int, mode: int) -> None:
    nowhere = os.open(os.devnull, mode)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
