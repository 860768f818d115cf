"""The limit of runs per owner and hour. Runs beyond it are visibly held back and not dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from duetime.engine.clock import HOUR, Instant
from duetime.engine.model import NO_RUN, RunStatus
from duetime.engine.policy.claim import LEAD, Entry
from duetime.engine.policy.options import Overlap, policy_for_ending
from duetime.engine.policy.rows import Writes


class Budget(NamedTuple):
    """The number of runs that an owner may have in an hour."""

    limit: int
    exempt: frozenset[str] = frozenset()
    """Owners without a limit."""


def hour_of(now: Instant) -> Instant:
    return Instant(now - now % HOUR)


def hold_back(
    entries: Sequence[Entry], used: Mapping[str, int], limit: int, now: Instant
) -> tuple[list[Entry], Writes]:
    """Return the entries that their owners may still run, and the writes that move the others to the next hour. Owners
    that `used` does not name have no limit."""
    spent = Counter(used)
    admitted: list[Entry] = []
    writes = Writes()
    for entry in entries:
        owner = entry.definition.owner
        if owner in used and _starts(entry):
            spent[owner] += 1
            if spent[owner] > limit:
                _postpone(writes, entry, limit, Instant(hour_of(now) + HOUR + LEAD))
                continue
        admitted.append(entry)
    return admitted, writes


def _starts(entry: Entry) -> bool:
    """Return whether the entry may start a run: not if a hold expires, nor if the occurrence will be skipped."""
    if entry.due.run != NO_RUN:
        return entry.run is not None and entry.run.status == RunStatus.PENDING
    busy = entry.progress.active > 0
    return not busy or policy_for_ending(entry.definition.policy).overlap != Overlap.SKIP


def _postpone(writes: Writes, entry: Entry, limit: int, until: Instant) -> None:
    writes.due_gone.append(entry.due)
    writes.due_new.append(entry.due._replace(at=until))
    progress = writes.progress_of(entry.progress)
    note = (
        f"held back until the next hour: the limit of {limit} runs an hour is reached;"
        " let schedules run less often, or ask the operator to raise max_runs_per_hour"
    )
    writes.progress[progress.schedule] = progress._replace(note=note)
