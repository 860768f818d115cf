"""A child process and the pipes that tie it to us.

- control (its standard input): the request, then a later deadline every now and then, then perhaps a wish to cancel;
- results: its answers, apart from the standard output, which tasks may flood as they like;
- life: nothing is ever written; when our end closes because we died, the kernel kills the child's group.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from duetime.kinds.signals import ProcessFailed

TICK = 0.05
"""Seconds between two looks at a stop signal."""
_MOST_HELD = 32 * 1024 * 1024
_CHILD = str(Path(__file__).with_name("child.py"))


class Tether:
    def __init__(self, request: bytes) -> None:
        self._results, results_there = os.pipe()
        life_there, self._life = os.pipe()
        try:
            # -P: the directory of child.py must not become a place to import from.
            self._process = subprocess.Popen(
                [sys.executable, "-P", _CHILD, str(results_there), str(life_there)],
                stdin=subprocess.PIPE,
                stdout=_operators_output(),
                pass_fds=(results_there, life_there),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._results)
            os.close(self._life)
            raise
        finally:
            os.close(results_there)
            os.close(life_there)
        assert self._process.stdin is not None  # it was asked for
        self._control = self._process.stdin.fileno()
        os.set_blocking(self._control, False)
        os.set_blocking(self._results, False)
        self._exit = _exit_descriptor(self._process.pid)
        self._unsent = bytearray(request)
        self._unread = bytearray()
        self._open = True
        self.exited = False

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.exited or not self._open

    def tell(self, note: bytes) -> None:
        if len(self._unsent) < _MOST_HELD:  # a child that never reads must not fill our memory
            self._unsent += note

    def hear(self, timeout: float) -> list[bytes]:
        """Waits at most this long; sends what is unsent; returns the lines that are complete."""
        poll = select.poll()
        if self._open:
            poll.register(self._results, select.POLLIN)
        if self._exit is not None and not self.exited:
            poll.register(self._exit, select.POLLIN)
        if self._unsent:
            poll.register(self._control, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(timeout * 1000)}
        if self._control in ready:
            self._send()
        if self._exit in ready or (self._exit is None and self._process.poll() is not None):
            self.exited = True
        if self._open and (self._results in ready or self.exited):
            self._receive()
        return self._lines()

    def end(self) -> int:
        """Kills what is left of the group and tells how its first process ended."""
        # It is not reaped before this, so its number still means its group and nobody else's.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        status = self._process.wait()
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        for descriptor in (self._results, self._life, self._exit):
            if descriptor is not None:
                os.close(descriptor)
        return status

    def _send(self) -> None:
        try:
            sent = os.write(self._control, self._unsent[:65536])
            del self._unsent[:sent]
        except BlockingIOError:
            pass  # the pipe is full: next time
        except OSError:
            self._unsent.clear()  # nobody reads any more; how the child ended says the rest

    def _receive(self) -> None:
        """A child that is gone leaves its last words in the pipe: they are read to the end."""
        while True:
            try:
                data = os.read(self._results, 65536)
            except BlockingIOError:
                return
            if not data:
                self._open = False
                return
            self._unread += data
            if len(self._unread) > _MOST_HELD:
                raise ProcessFailed("its process answered with more than can be taken")
            if not self.exited:
                return

    def _lines(self) -> list[bytes]:
        *lines, rest = self._unread.split(b"\n")
        if lines:
            self._unread = rest
        return [bytes(line) for line in lines]


def _exit_descriptor(process: int) -> int | None:
    """Becomes readable when the process ends, without reaping it."""
    if sys.platform == "linux":
        with suppress(OSError):  # an old kernel
            return os.pidfd_open(process)
    return None


def _operators_output() -> int:
    """A task's output goes where the operator looks; our own standard output may carry a protocol."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2
