"""The command line on a pseudo-terminal of any width, with a simulated user who types."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from duetime.engine.clock import SystemClock
from tests.support.cli import environment

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][0-9A-Za-z]|\x1b[=>]")


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], descriptor: int, patience: float) -> None:
        self.process = process
        self._descriptor = descriptor
        self._patience = patience
        self._clock = SystemClock()
        self.raw = ""
        self._said = 0

    @property
    def text(self) -> str:
        """Return everything that was shown, without colours and cursor movements."""
        return _CONTROLS.sub("", self.raw).replace("\r\n", "\n").replace("\r", "\n")

    def until(self, wanted: str) -> str:
        """Wait for text that was not there at the last call."""
        deadline = self._clock.monotonic() + self._patience
        while wanted not in self.text[self._said :]:
            if not self._read(deadline - self._clock.monotonic()):
                raise AssertionError(f"{wanted!r} was not shown:\n{self.text}")
        self._said = self.text.index(wanted, self._said) + len(wanted)
        return self.text

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def interrupt(self) -> None:
        """Interrupt like Ctrl-C on the terminal from which the command was started."""
        self.process.send_signal(signal.SIGINT)

    def rest(self) -> str:
        """Return everything until the command has ended."""
        deadline = self._clock.monotonic() + self._patience
        while self._read(deadline - self._clock.monotonic()):
            continue
        self.process.wait(self._patience)
        return self.text

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # on Linux this is how the other end is found closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)


@contextmanager
def on_terminal(
    *arguments: str,
    folder: Path,
    columns: int = 80,
    lines: int = 24,
    env: Mapping[str, str] | None = None,
    patience: float = 30.0,
) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    own = {name: value for name, value in environment().items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "duetime", *arguments],
            cwd=folder,
            env=own | {"XDG_DATA_HOME": str(folder / "data"), "TERM": "xterm-256color", **(env or {})},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    try:
        yield Terminal(process, ours, patience)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(patience)
        os.close(ours)
