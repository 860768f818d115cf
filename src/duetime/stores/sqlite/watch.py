"""Waits for commits of other processes. Linux reports writes to the WAL (inotify); elsewhere it is looked at."""

from __future__ import annotations

import ctypes
import os
import select
import threading
from collections.abc import Callable

from duetime.engine.clock import Clock

LOOK_SECONDS = 0.05
"""Seconds between two looks at a store that is written to, or whose file system reports no writes."""
REST_SECONDS = 1.0
"""Seconds between two looks at a store that rests, in case a write was not reported."""
FIRST_LOOKS = (0.001, 0.002, 0.004, 0.008, 0.016)
"""Seconds before the first looks after a write: a commit can be seen once it is on disk."""
COMMIT_SECONDS = 1.0
"""Seconds for which a commit that was begun is looked for."""


class CommitWatch:
    """Waits in one thread; any thread may call `interrupt` and `close`.

    A commit writes the WAL and then changes `data_version` for all other connections. While nothing is written, this
    sleeps until the system reports a write; while much is written, it looks at intervals, so that a busy worker is not
    interrupted by every commit of its own.
    """

    def __init__(self, version: Callable[[], int], foreign_version: Callable[[], int], log: str, clock: Clock) -> None:
        """Give two functions that return `data_version`: of a connection that never writes, and of the one that does,
        which the commits of this process do not change."""
        self._version, self._foreign_version, self._clock = version, foreign_version, clock
        self._foreign = foreign_version()  # first: what comes between the two counts as seen
        self._seen = version()
        self._log = log
        self._writes = FileWatch(log)
        self._resting = self._trusted = False
        self._commit_until = 0.0
        self._mark = (0, 0)
        self._looks = 0

    def wait(self, timeout: float) -> bool:
        """Return True as soon as another process has committed; False after the timeout, or if interrupted."""
        deadline = self._clock.monotonic() + timeout
        while True:
            left = max(0.0, deadline - self._clock.monotonic())
            resting = self._resting and self._writes.reports
            written = self._writes.wait(min(left, REST_SECONDS if resting else LOOK_SECONDS), for_writes=resting)
            if written is None:
                return False
            others_wrote = self._look_soon() if written else self._look(resting=resting)
            if others_wrote:
                return True
            if others_wrote is None or self._clock.monotonic() >= deadline:
                return False

    def _look_soon(self) -> bool | None:
        """Look several times after a write that was reported. Return None if interrupted.

        Reports are read away before each look: the further writes of a commit that is found then do not look like the
        beginning of another one, which would be looked for in vain.
        """
        self._resting, self._trusted = False, True
        self._commit_until = self._clock.monotonic() + COMMIT_SECONDS
        for pause in FIRST_LOOKS:
            if self._writes.wait(pause, for_writes=False) is None or self._writes.wait(0) is None:
                return None
            if self._is_changed():
                return self._others_wrote()
        return False

    def _look(self, *, resting: bool) -> bool | None:
        """Look once. Return None if interrupted."""
        if not self._writes.reports:
            return self._may_have_changed() and self._is_changed() and self._others_wrote()
        written = not resting and self._writes.wait(0)  # what comes after this is reported
        if written is None:
            return None
        changed = self._is_changed()
        if written:  # perhaps by a commit that cannot be seen yet, even if another one was seen
            self._trusted, self._commit_until = True, self._clock.monotonic() + COMMIT_SECONDS
        if changed and resting and not self._trusted:
            self._writes.distrust()
        self._resting = not changed and self._clock.monotonic() >= self._commit_until
        return changed and self._others_wrote()

    def _is_changed(self) -> bool:
        before, self._seen = self._seen, self._version()
        if self._seen == before:
            return False
        self._commit_until = 0.0
        return True

    def _others_wrote(self) -> bool:
        before, self._foreign = self._foreign, self._foreign_version()
        return self._foreign != before

    def _may_have_changed(self) -> bool:
        """Return whether the WAL was written since the last call or the one before: asking SQLite costs far more.

        Times of files advance in steps, so that a second write within a step is found by the next call. Not every file
        system keeps them, so that every tenth call returns True.
        """
        try:
            seen = os.stat(self._log)  # noqa: PTH116 - often, and a Path costs as much as the call
            mark = seen.st_mtime_ns, seen.st_size
        except FileNotFoundError:
            mark = 0, 0
        self._looks = 0 if mark != self._mark else self._looks + 1
        self._mark = mark
        return self._looks < 2 or self._looks % 10 == 0

    def interrupt(self) -> None:
        """End the wait that is in progress, or else the next one."""
        self._writes.interrupt()

    def close(self) -> None:
        self._writes.close()


_MODIFIED = 0x2
"""IN_MODIFY of inotify."""
_MOST_BYTES = 65_536


class FileWatch:
    """Reports of writes to a file, for one thread that waits. Any thread may call `interrupt` and `close`."""

    def __init__(self, path: str) -> None:
        self._waiting = threading.Lock()
        self._closed = False
        self._rung = threading.Event()
        self._pipe = os.pipe() if hasattr(select, "poll") else None  # Windows has no poll, and its select takes no pipe
        self._events = _watch(path) if self._pipe else None

    @property
    def reports(self) -> bool:
        """Whether the system reports writes. If not, `wait` returns only after its timeout."""
        return self._events is not None

    def distrust(self) -> None:
        """Stop relying on reports, because a write was not reported: some file systems have none."""
        with self._waiting:
            self._close_events()

    def wait(self, timeout: float, *, for_writes: bool = True) -> bool | None:
        """Return True after a write, False after the timeout, and None if this was interrupted."""
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
                os.read(self._events, _MOST_BYTES)  # however many there were, they count as one
            return bool(ready)

    def interrupt(self) -> None:
        """End the wait that is in progress, or else the next one."""
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
    try:
        library = ctypes.CDLL(None, use_errno=True)
        events = library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    except (AttributeError, OSError, TypeError):
        return None
    if events < 0:  # such as one too many: their number is limited for each user
        return None
    if library.inotify_add_watch(events, os.fsencode(path), _MODIFIED) < 0:
        os.close(events)
        return None
    return int(events)
