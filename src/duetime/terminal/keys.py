"""Single keys from a terminal, read without Enter. Where there is no terminal, or none with modes, there are none."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

UP, DOWN, ENTER, ESCAPE = "up", "down", "enter", "escape"
_NAMED = {"\x1b[A": UP, "\x1bOA": UP, "\x1b[B": DOWN, "\x1bOB": DOWN, "\r": ENTER, "\n": ENTER, "\x1b": ESCAPE}
_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)


class Keys:
    """The keyboard, as a context: on exit the terminal is as it was before. Ctrl-C still interrupts."""

    def __init__(self) -> None:
        self._before: Any = None
        self.descriptor: int | None = None
        """What to wait for; None if there is no keyboard."""

    def __enter__(self) -> Keys:
        try:
            import termios
            import tty
        except ImportError:  # not on Windows
            return self
        if sys.stdin.isatty():
            self.descriptor = sys.stdin.fileno()
            self._before = termios.tcgetattr(self.descriptor)
            tty.setcbreak(self.descriptor)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.descriptor is not None:
            import termios

            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, self._before)

    def pressed(self) -> Sequence[str]:
        """Return the keys that were pressed: characters, and the names above. It waits unless there are any."""
        if self.descriptor is None:
            return ()
        text = os.read(self.descriptor, 1024).decode(errors="ignore")
        return [_NAMED.get(key, key) for key in _KEY.findall(text)]
