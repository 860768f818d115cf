"""A worker that fails, succeeds and tells at given times in a process of its own, which dies at a chosen commit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from duetime.app import open_store
from duetime.engine.clock import Instant
from duetime.engine.outcome import Completed, Failed, Outcome
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.stores.base import BaseStore
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.sqlite.store import SqliteStore
from tests.support.hand import Hand

BEFORE, AFTER = "before", "after"
NEVER = 10**6


class Step(NamedTuple):
    """What is due at an instant is run with this result, and then the owners are told."""

    at: int
    succeeds: bool

    @property
    def outcome(self) -> Outcome:
        return Completed('"done"') if self.succeeds else Failed("no water in tank 7", permanent=True)


class Death(NamedTuple):
    """A process is killed before or after its commit with this number."""

    commit: int = NEVER
    side: str = BEFORE


def open_quietly(url: str) -> BaseStore:
    store = open_store(url)
    assert isinstance(store, SqliteStore | PostgresStore)
    store.messenger = MESSENGER
    return store


def work(store: BaseStore, steps: Sequence[Step]) -> Iterator[Step]:
    """Do all steps as a worker that has just started, which first finds what dead workers held."""
    for row in store.workers():
        store.rescue(row.id, row.beat, Instant(steps[0].at))
    hand = Hand(store, now=steps[0].at)
    for step in steps:
        yield step
        while claims := hand.claim(step.at):
            hand.record(claims, step.at, step.outcome)
        store.tell_incidents(Instant(step.at))


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(store: BaseStore, death: Death, die: Callable[[], object] = kill_this_process) -> None:
    """Let the process die at a commit of this store: before it, all of its statements were sent."""
    write, numbers = store._write, iter(range(1, NEVER))

    @contextmanager
    def deadly() -> Iterator[Any]:
        number = next(numbers)
        with write() as tx:
            yield tx
            if death == (number, BEFORE):
                if burst := getattr(tx, "_burst", None):  # as PostgreSQL's transactions send in bursts
                    burst()
                die()
        if death == (number, AFTER):
            die()

    store._write = deadly  # type: ignore[method-assign]


def run(url: str, steps: Sequence[Step], death: Death, progress: str) -> None:
    """Do the steps in this process until it dies, and say in a file how many were begun."""
    store = open_quietly(url)
    die_at(store, death)
    for number, _ in enumerate(work(store, steps)):
        Path(progress).write_text(str(number), encoding="utf-8")
    Path(progress).write_text("all", encoding="utf-8")
    store.close()
