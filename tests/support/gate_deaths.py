"""A worker that checks a gate and does its work in a process of its own, which dies at a chosen commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.model import ScheduleId
from duetime.kinds.jobs.context import TaskContext
from duetime.stores.base import BaseStore
from tests.support.dying import Death, die_at, open_quietly
from tests.support.gate_world import GateWorld


class Poll(NamedTuple):
    """What the page shows in a minute, and whether work fails then."""

    page: str
    fails: bool = False


POLLS = (Poll("a"), Poll("b"), Poll("b"), Poll("c", fails=True), Poll("c"), Poll("c"))
"""A first look, a change, none, a change with which the work fails, its success, and no change again."""


class Deadly(GateWorld):
    """Writes each work that is done, and each poll that begins, to files that outlive the process."""

    def __init__(self, store: BaseStore, now: int, schedule: ScheduleId, folder: Path) -> None:
        for row in store.workers():  # what dead workers held
            store.rescue(row.id, row.beat, Instant(now))
        super().__init__(store, now=now, schedule=schedule)
        self.begun, self.worked = folder / "begun", folder / "worked"

    def _work(self, context: TaskContext) -> str:
        with self.worked.open("a", encoding="utf-8") as file:
            file.write(f"{context.gate}\n")
        return super()._work(context)

    def settle(self) -> None:
        """Run what is due, without heartbeats, whose commits change no run."""
        self.worker.notice()
        while self.worker.record_and_claim():
            pass

    def live(self, polls: Sequence[Poll], first: int = 0) -> Iterator[int]:
        """Do all polls from this one on, each a minute after the one before."""
        begin = self.clock.now()
        for number, poll in enumerate(polls[first:], first):
            self.begun.write_text(str(number), encoding="utf-8")
            self.page, self.fails = poll
            self.clock.move_to(Instant(begin + (number - first + 1) * MINUTE))
            self.settle()
            yield number


def poll_until_death(url: str, now: int, schedule: ScheduleId, death: Death, folder: str) -> None:
    store = open_quietly(url)
    die_at(store, death)
    for _ in Deadly(store, now, schedule, Path(folder)).live(POLLS):
        pass
    store.close()
