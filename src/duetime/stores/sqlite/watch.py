"""Waits for commits of other processes. Linux reports writes to the WAL (inotify); on other systems, it is polled."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

from duetime.engine.clock import Clock

LOOK_SECONDS = 0.05
"""Seconds between two checks of a store that is written to all the time, or whose file system reports no writes."""
FIRST_LOOK_SECONDS = 0.001
"""Seconds from a reported write to the first check: a commit is visible only once it is on disk."""
REST_SECONDS = 1.0
"""Seconds between two checks of an idle store, in case a write was not reported."""
CALM = 8
"""The pauses start again at their shortest after an idle time of this many times the last pause. Until then, each pause
is twice the last."""


class CommitWatch:
    """Waits in one thread; any thread may call `interrupt` and `close`.

    A commit writes the WAL and then changes `data_version` for all other connections. This class sleeps until the
    system reports a write, and then checks until the commit is visible. The more this process itself writes, the longer
    it pauses before each check, so that a busy worker is not interrupted by every commit of its own.

    It sleeps again only if no transaction was open between discarding the reports and the last check: what such a
    transaction had already written would not be reported again, however late its commit becomes visible.
    """

    def __init__(
        self,
        version: Callable[[], int],
        foreign_version: Callable[[], int],
        log: str,
        clock: Clock,
        is_written: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take two functions that return `data_version`: one for a connection that never writes, and one for the
        connection that does, whose version the commits of this process do not change. `is_written` returns whether a
        write transaction is open."""
        self._version, self._foreign_version, self._clock = version, foreign_version, clock
        self._is_written = is_written
        self._foreign = foreign_version()  # read first: a change between the two reads counts as seen
        self._seen = version()
        self._log = log
        self._writes = FileWatch(log)
        self._resting = self._trusted = False
        self._pause = FIRST_LOOK_SECONDS
        self._mark = (0, 0)
        self._looks = 0

    def wait(self, timeout: float) -> bool:
        """Return True as soon as another process has committed; False after the timeout, or if interrupted."""
        deadline = self._clock.monotonic() + timeout
        while True:
            left = max(0.0, deadline - self._clock.monotonic())
            others_wrote = self._rest(left) if self._resting and self._writes.reports else self._look(left)
            if others_wrote:
                return True
            if others_wrote is None or self._clock.monotonic() >= deadline:
                return False

    def _rest(self, left: float) -> bool | None:
        """Sleep until a write is reported. Return None if interrupted."""
        begun = self._clock.monotonic()
        written = self._writes.wait(min(left, REST_SECONDS))
        if self._clock.monotonic() - begun >= CALM * self._pause:
            self._pause = FIRST_LOOK_SECONDS
        if written:
            self._resting, self._trusted = False, True
        if written is None or written or not self._is_changed():
            return None if written is None else False
        if not self._trusted:
            self._writes.distrust()
        self._resting = False
        return self._others_wrote()

    def _look(self, left: float) -> bool | None:
        """Pause, then check once. Return None if interrupted."""
        if not self._writes.reports:
            if self._writes.wait(min(left, LOOK_SECONDS)) is None:
                return None
            return self._may_have_changed() and self._is_changed() and self._others_wrote()
        if self._writes.wait(min(left, self._pause), for_writes=False) is None:
            return None
        self._pause = min(LOOK_SECONDS, self._pause * 2)
        written = self._writes.wait(0)  # writes after this are reported
        if written is None:
            return None
        self._trusted = self._trusted or written
        self._resting = not self._is_written()
        if not self._is_changed() or not self._others_wrote():
            return False
        self._pause = FIRST_LOOK_SECONDS
        return True

    def _is_changed(self) -> bool:
        before, self._seen = self._seen, self._version()
        return self._seen != before

    def _others_wrote(self) -> bool:
        before, self._foreign = self._foreign, self._foreign_version()
        return self._foreign != before

    def _may_have_changed(self) -> bool:
        """Return whether the WAL was written since the last call or the one before it, because asking SQLite costs far
        more. File times advance in steps, so a second write within a step is found by the next call. Not every file
        system maintains them, so every tenth call returns True."""
        try:
            seen = os.stat(self._log)  # noqa: PTH116 - often, and a Path costs as much as the call
            mark = seen.st_mtime_ns, seen.st_size
        except FileNotFoundError:
            mark = 0, 0
        self._looks = 0 if mark != self._mark else self._looks + 1
        self._mark = mark
        return self._looks < 2 or self._looks % 10 == 0

    def interrupt(self) -> None:
        """End the wait that is in progress or, if there is none, the next one."""
        self._writes.interrupt()

    def close(self) -> None:
        self._writes.close()


_MODIFIED = 0x2
"""IN_MODIFY of inotify."""
_MOST_BYTES = 65_536


class FileWatch:
    """Reports of writes to a file, for a single waiting thread. Any thread may call `interrupt` and `close`."""

    def __init__(self, path: str) -> None:
        self._waiting = threading.Lock()
        self._closed = False
        self._rung = threading.Event()
        self._pipe = os.pipe() if hasattr(select, "poll") else None  # Windows has no poll, and its select takes no pipe
        self._events = _watch(path) if self._pipe else None

    @property
    def reports(self) -> bool:
        """Return whether the system reports writes. If not, `wait` returns only after its timeout."""
        return self._events is not None

    def distrust(self) -> None:
        """Stop relying on reports, because a write was not reported; some file systems report none."""
        with self._waiting:
            self._close_events()

    def wait(self, timeout: float, *, for_writes: bool = True) -> bool | None:
        """Return True after a write, False after the timeout, and None if interrupted."""
        with self._waiting:
            if self._closed:
                return None
            if self._pipe is None:
                if not self._rung.wait(max(0.0, timeout)):
                    return False
                self._rung.clear()
                return None
            bell, _ = self._pipe
            poll = select.poll()
            poll.register(bell, select.POLLIN)
            if for_writes and self._events is not None:
                poll.register(self._events, select.POLLIN)
            ready = [descriptor for descriptor, _ in poll.poll(max(0.0, timeout) * 1000)]
            if bell in ready:
                os.read(bell, _MOST_BYTES)
                return None
            if ready and self._events is not None:
                os.read(self._events, _MOST_BYTES)  # any number of reports counts as one
            return bool(ready)

    def interrupt(self) -> None:
        """End the wait that is in progress or, if there is none, the next one."""
        if not self._closed:
            self._ring()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._ring()
        with self._waiting:
            self._close_events()
            for end in self._pipe or ():
                os.close(end)

    def _ring(self) -> None:
        if self._pipe is None:
            self._rung.set()
        else:
            os.write(self._pipe[1], b".")

    def _close_events(self) -> None:
        if self._events is not None:
            os.close(self._events)
            self._events = None


def _watch(path: str) -> int | None:
    """Return a descriptor that can be read after each write to the file, or None if the system offers none."""
    import ctypes  # only processes that wait need it

    try:
        library = ctypes.CDLL(None, use_errno=True)
        events = library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    except (AttributeError, OSError, TypeError):
        return None
    if events < 0:  # for example one watch too many: their number is limited per user
        return None
    if library.inotify_add_watch(events, os.fsencode(path), _MODIFIED) < 0:
        os.close(events)
        return None
    return int(events)
