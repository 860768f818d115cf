"""Bulk creation of schedules, stored column by column. Building an object for every row would take longer, including
the garbage collector's work, than writing the rows to the database, so a row is built only when it is accessed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from duetime.engine.clock import Instant
from duetime.engine.lazy_sequence import LazySequence
from duetime.engine.model import NO_RUN, Definition, DueEntry, ScheduleId
from duetime.engine.policy.rows import Draft, NewRows, begin, first_entry, first_lane, first_progress

Column = list[Any]
MANY = 50
"""Number of drafts from which the column layout is faster."""
ID, PUBLIC_ID, KIND, OWNER, TRIGGER, PAYLOAD, POLICY, KEY, CREATED = map(
    Definition._fields.index,
    ("id", "public_id", "kind", "owner", "trigger", "payload", "policy", "key", "created"),
)
_new = tuple.__new__  # see `rows`


def begin_all(drafts: Sequence[Draft], ids: Sequence[ScheduleId]) -> Sequence[NewRows]:
    if len(drafts) < MANY:
        return [begin(draft, id) for draft, id in zip(drafts, ids, strict=True)]
    return NewSchedules(drafts_in_columns(drafts), ids)


def earliest_of(rows: Sequence[NewRows]) -> Instant:
    return min(rows.starts) if isinstance(rows, NewSchedules) else min([entry.at for _, _, entry in rows])


def in_columns(rows: Sequence[tuple[Any, ...]]) -> list[Column]:
    """Return the columns of rows of equal length. `zip` would create an iterator per row for the garbage collector to
    track."""
    values, width = list(chain.from_iterable(rows)), len(rows[0])
    return [values[place::width] for place in range(width)]


def is_common(column: Column) -> bool:
    """Return whether all rows have the same value."""
    return column.count(column[0]) == len(column)


def columns_of(rows: Sequence[NewRows]) -> tuple[list[Column], list[Column], list[Column]]:
    """Return the columns of definitions, of progress (those that differ between new schedules) and of due entries."""
    if isinstance(rows, NewSchedules):
        return rows.definitions, rows.progress, rows.entries
    definitions, progress, entries = zip(*rows, strict=True)
    return in_columns(definitions), in_columns([(*row[:3], row[4]) for row in progress]), in_columns(entries)


class Drafts(LazySequence[Draft]):
    def __init__(self, definitions: Sequence[Column], firsts: list[Instant]) -> None:
        self.definitions, self.firsts = definitions, firsts

    def __len__(self) -> int:
        return len(self.firsts)

    def _item(self, index: int) -> Draft:
        definition: Definition = _new(Definition, [column[index] for column in self.definitions])
        return Draft(definition, self.firsts[index])

    def lanes(self) -> Column:
        kinds, policies = self.definitions[KIND], self.definitions[POLICY]
        if is_common(kinds) and is_common(policies):
            return [first_lane(kinds[0], policies[0])] * len(kinds)
        return list(map(first_lane, kinds, policies))

    def starts(self, ids: Sequence[ScheduleId]) -> list[Instant]:
        if not have_jitter(set(self.definitions[TRIGGER])):
            return self.firsts
        return [first_entry(draft, id).at for draft, id in zip(self, ids, strict=True)]


def have_jitter(triggers: Iterable[str]) -> bool:
    """Return whether the start of a draft with one of these triggers depends on its id."""
    return any("jitter_us" in trigger for trigger in triggers)


def drafts_in_columns(drafts: Sequence[Draft]) -> Drafts:
    if isinstance(drafts, Drafts):
        return drafts
    return Drafts(in_columns([definition for definition, _ in drafts]), [first for _, first in drafts])


class NewSchedules(LazySequence[NewRows]):
    def __init__(self, drafts: Drafts, ids: Sequence[ScheduleId]) -> None:
        names = [text.replace("{id}", str(id)) for text, id in zip(drafts.definitions[PUBLIC_ID], ids, strict=True)]
        self.definitions = [list(ids), names, *drafts.definitions[2:]]
        self.firsts, self.lanes, self.starts = drafts.firsts, drafts.lanes(), drafts.starts(ids)

    @property
    def progress(self) -> list[Column]:
        """The columns that differ between new schedules: schedule, owner, kind and next."""
        return [self.definitions[ID], self.definitions[OWNER], self.definitions[KIND], self.firsts]

    @property
    def entries(self) -> list[Column]:
        """The columns of their due entries, sorted by time so that they are adjacent in the queue."""
        ids, owners = self.definitions[ID], self.definitions[OWNER]
        columns: list[Column] = [self.lanes, self.starts, ids, [NO_RUN] * len(ids), owners]
        if is_common(self.starts):
            return columns
        order = sorted(range(len(ids)), key=self.starts.__getitem__)
        return [list(map(column.__getitem__, order)) for column in columns]

    def __len__(self) -> int:
        return len(self.firsts)

    def _item(self, index: int) -> NewRows:
        definition: Definition = _new(Definition, [column[index] for column in self.definitions])
        entry = DueEntry(self.lanes[index], self.starts[index], definition.id, NO_RUN, definition.owner)
        return definition, first_progress(definition, self.firsts[index]), entry
