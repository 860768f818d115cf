"""Logs of runs in memory, until they are stored: the beginning and the end of what each attempt writes, redacted."""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from duetime.engine.clock import Clock, Instant
from duetime.engine.encoding import TERMINAL_ESCAPES, UNSAFE
from duetime.engine.errors import TRANSIENT
from duetime.engine.model import RunId
from duetime.engine.redaction import line_redactor
from duetime.engine.store_interfaces import LogChange, LogPart, Logs
from duetime.engine.worker.runner import ClaimedRun

log = logging.getLogger("duetime.worker")

LOG_BYTES: Final = 64 * 1024
"""Bytes that are kept of an attempt: half from the beginning, half from the end."""
LONGEST_PART: Final = 4096
"""Maximum characters of a line, and of the lines that are stored together. It is also what one call redacts, because
no other thread runs meanwhile."""
LIVE_BUDGET: Final = 0.1
"""Seconds that preparing the logs of runs in progress takes at a time; the others come next time."""
WRITTEN_AT_ONCE: Final = 256 * 1024
"""Characters in one transaction, so that no other waits for long."""
_UNSAFE: Final = re.compile(UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


class FreshText:
    """What was written since it was last taken: its beginning and its end, of at most `half` characters each."""

    def __init__(self, half: int) -> None:
        self._half = half
        self._first, self._dropped = "", 0
        self._pieces: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)
        if self._size > 3 * self._half:  # not each time, because cutting copies the text
            self._cut()

    def take(self) -> tuple[str, int, str]:
        """Return the beginning, how many characters are missing after it, and the end."""
        self._cut()
        taken = self._first, self._dropped, self._pieces[0]
        self._first, self._dropped, self._pieces, self._size = "", 0, [], 0
        return taken

    def _cut(self) -> None:
        text = "".join(self._pieces)
        space = self._half - len(self._first)
        self._first += text[:space]
        last = text[space:][-self._half :]
        self._dropped += max(0, len(text) - space - len(last))
        self._pieces, self._size = [last], len(last)


class AttemptLog:
    """The log of one attempt. Writing to it is cheap; `digest` turns whole lines into parts that can be stored."""

    def __init__(self, item: ClaimedRun, most: int, clock: Clock) -> None:
        self.item, self._clock = item, clock
        self._half = max(1, most // 2)
        self._longest = max(1, min(LONGEST_PART, self._half // 4))
        self._fresh, self._arriving = FreshText(self._half), threading.Lock()
        self._at: Instant | None = None
        """When the first of the fresh text was written."""
        self._changing = threading.RLock()
        """Held while lines are digested, and while parts are taken."""
        self._partial = ""
        self._is_in_long_line = False
        self._redact: Callable[[str], str] | None = None
        self._offset = 0
        self._head_room, self._head_end = self._half, 0
        self._tail: deque[tuple[int, int]] = deque()
        self._tail_size = 0
        self._ready: list[LogPart] = []
        self.digested = 0.0

    def write(self, text: str) -> None:
        with self._arriving:
            if self._at is None:
                self._at = self._clock.now()
            self._fresh.add(text)

    def digest(self, *, is_over: bool = False) -> None:
        """Clean and redact the whole lines that have arrived, and the last one without an end once the run is over."""
        with self._changing:
            with self._arriving:
                first, missing, last = self._fresh.take()
                at, self._at = self._at or self._clock.now(), None
            if not missing:
                first += last
            text = self._without_rest_of_long_line(self._partial + first)
            if missing:
                # half of a credential would not be recognised: a line that is cut is left out, or kept up to its middle
                *lines, cut = text.split("\n")
                rest, newline, text = last.partition("\n")
                self._is_in_long_line = not newline and not is_over
                if len(cut) > 2 * self._longest:
                    lines.append(cut)
                    cut = ""
                self._add(lines, at)
                self._offset += missing + len(cut) + len(rest) + 1
            *lines, self._partial = text.split("\n")
            if self._partial and (is_over or len(self._partial) > 2 * self._longest):
                self._is_in_long_line = not is_over
                lines.append(self._partial)
                self._partial = ""
            self._add(lines, at)
            self._ready = [each for each in self._ready if self._is_kept(each)]

    def _without_rest_of_long_line(self, text: str) -> str:
        """Leave out the rest of a line whose beginning was too long already."""
        if not self._is_in_long_line:
            return text
        rest, newline, text = text.partition("\n")
        self._is_in_long_line = not newline
        self._offset += len(rest)
        return text

    def _add(self, lines: Sequence[str], at: Instant) -> None:
        if not lines:
            return
        if self._redact is None:
            self._redact = line_redactor(self.item.claim.definition.payload)
        text = _UNSAFE.sub("\ufffd", _without_overwritten(TERMINAL_ESCAPES.sub("", "\n".join(lines))))
        for chunk in _chunks(text.split("\n"), self._longest):
            text = self._redact("\n".join(chunk))
            self._keep("".join(f"{self._shortened(line)}\n" for line in text.split("\n")), at)

    def _shortened(self, line: str) -> str:
        surplus = len(line) - self._longest
        return line if surplus <= 0 else f"{line[: self._longest]} [the rest of this line is left out]"

    def _keep(self, text: str, at: Instant) -> None:
        run, size = self.item.claim.run, len(text.encode())
        self._ready.append(LogPart(run.id, run.fence, self._offset, max(1, run.attempt), at, text))
        if size <= self._head_room:
            self._head_room -= size
            self._head_end = self._offset + size
        else:
            self._head_room = 0
            self._tail.append((self._offset, size))
            self._tail_size += size
            while self._tail_size > self._half and len(self._tail) > 1:
                self._tail_size -= self._tail.popleft()[1]
        self._offset += size

    def _is_kept(self, part: LogPart) -> bool:
        return part.part < self._head_end or not self._tail or part.part >= self._tail[0][0]

    def changes(self) -> LogChange | None:
        """Return what is to be stored, until `stored` is called with it."""
        with self._changing:
            if not self._ready:
                return None
            return LogChange(tuple(self._ready), self._head_end, self._tail[0][0] if self._tail else 0)

    def stored(self, change: LogChange) -> None:
        with self._changing:
            self._ready = [each for each in self._ready if each.part > change.parts[-1].part]


def _without_overwritten(text: str) -> str:
    """Return the text without what a line replaced by returning to its beginning, such as earlier progress."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def _chunks(lines: Sequence[str], longest: int) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    # far more of a line than is kept, so that a credential at the edge of this cut is not
    for line in (each[: 2 * longest] for each in lines):
        if chunk and size + len(line) >= longest:
            yield chunk
            chunk, size = [], 0
        chunk.append(line)
        size += len(line) + 1
    yield chunk


class RunLogs:
    """The logs of the runs that a worker holds. One is created with the first text that a run writes."""

    def __init__(self, most: int, clock: Clock) -> None:
        self.most, self._clock = most, clock
        self.open: dict[ClaimedRun, AttemptLog] = {}
        self._opening = threading.Lock()
        self._storing = threading.Lock()

    def write(self, item: ClaimedRun, text: str) -> None:
        """Add to the log of a run that has not ended; what was left behind by one may still write."""
        if item.over or not self.most or not text:
            return
        run_log = self.open.get(item)
        if run_log is None:
            with self._opening:
                run_log = self.open.setdefault(item, AttemptLog(item, self.most, self._clock))
        run_log.write(text)

    def finish(self, item: ClaimedRun) -> None:
        """Prepare the log of a run that has ended, in its own thread."""
        if (run_log := self.open.get(item)) is not None:
            run_log.digest(is_over=True)

    def store_ended(self, store: Logs, items: Iterable[ClaimedRun]) -> None:
        """Store the logs of runs whose outcomes are recorded next."""
        logs = [run_log for item in items if (run_log := self.open.get(item)) is not None]
        for each in logs:
            each.digest(is_over=True)
        if self._store(store, logs):
            self._forget(logs)

    def store_live(self, store: Logs, held: Mapping[RunId, ClaimedRun]) -> None:
        """Store what runs have written so far."""
        until = self._clock.monotonic() + LIVE_BUDGET
        with self._opening:
            logs = sorted(self.open.values(), key=lambda each: each.digested)
        for each in logs:
            if self._clock.monotonic() > until:
                break
            each.digest()
            each.digested = self._clock.monotonic()
        if self._store(store, logs):
            self._forget([each for each in logs if held.get(each.item.id) is not each.item])

    def _store(self, store: Logs, logs: Collection[AttemptLog]) -> bool:
        """Return whether everything was stored. A log is never a reason to lose an outcome."""
        with self._storing:
            try:
                for batch in _batches(logs):
                    store.write_logs([change for _, change in batch])
                    for each, change in batch:
                        each.stored(change)
            except TRANSIENT:
                return False
            except Exception as error:
                log.warning("the logs of %s runs could not be stored: %s", len(logs), error)
                self._forget(logs)
        return True

    def _forget(self, logs: Iterable[AttemptLog]) -> None:
        with self._opening:
            for each in logs:
                self.open.pop(each.item, None)


def _batches(logs: Iterable[AttemptLog]) -> Iterator[list[tuple[AttemptLog, LogChange]]]:
    batch: list[tuple[AttemptLog, LogChange]] = []
    size = 0
    for each in logs:
        change = each.changes()
        if change is None:
            continue
        batch.append((each, change))
        size += sum(len(part.text) for part in change.parts)
        if size >= WRITTEN_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
