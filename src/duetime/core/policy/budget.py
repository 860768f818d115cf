"""How much one owner may run in an hour. What is beyond it is held back, visibly, and not dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from duetime.core.clock import HOUR, Instant
from duetime.core.policy.claiming import Entry
from duetime.core.policy.writes import Writes


def hour_of(now: Instant) -> Instant:
    return Instant(now - now % HOUR)


def hold_back(
    entries: Sequence[Entry], used: Mapping[str, int], limit: int, now: Instant
) -> tuple[list[Entry], Writes]:
    """The entries that their owners may still run, and the writes that move the others to the next hour."""
    spent = Counter(used)
    admitted: list[Entry] = []
    writes = Writes()
    for entry in entries:
        owner = entry.definition.owner
        spent[owner] += 1
        if spent[owner] <= limit:
            admitted.append(entry)
        else:
            _postpone(writes, entry, limit, Instant(hour_of(now) + HOUR))
    return admitted, writes


def _postpone(writes: Writes, entry: Entry, limit: int, until: Instant) -> None:
    writes.due_gone.append(entry.due)
    writes.due_new.append(entry.due._replace(at=until))
    progress = writes.progress_of(entry.progress)
    note = f"held back until the next hour: the limit of {limit} runs an hour is reached"
    writes.progress[progress.schedule] = progress._replace(note=note)
