"""Kills: real processes end with SIGKILL at named steps, and nothing that they acknowledged may be lost."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from duetime.app import open_store
from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import RunStatus
from duetime.engine.store import RunQuery
from duetime.engine.triggers import OnceTrigger, trigger_to_json
from duetime.stores.base import BaseStore
from duetime.stores.search import load_migrations
from duetime.testing import SettableClock
from scorecard import kill_child
from scorecard.kill_child import STATEMENT, STATEMENTS, TASK, Order, Scene
from scorecard.line import Result, Scale, Tell
from tests.support.invariants import invariants
from tests.support.postgres import running_postgres
from tests.support.shell import write

MIGRATIONS = 3
"""Kills of a migration in each round, every one a statement later."""
STEPS = (
    ("create", "before", "insert_schedules"),
    ("create", "after", "insert_schedules"),
    ("create", "after", "create"),
    ("claim", "after", "due_entries"),
    ("claim", "before", "insert_runs"),
    ("claim", "after", "insert_runs"),
    ("claim", "after", "record_and_claim"),
    ("run", "before", TASK),
    ("run", "after", TASK),
    ("record", "after", "holdings"),
    ("record", "before", "apply"),
    ("record", "after", "apply"),
    ("record", "before", "record_and_claim"),
    ("rescue", "after", "delete_dead_worker"),
    ("rescue", "after", "held_by"),
    ("rescue", "after", "rescue"),
    *[("migrate", "before", STATEMENT)] * MIGRATIONS,
)
STORES = ("sqlite", "postgres")
LATER = 3600
"""Seconds after the start of the killed process at which the recovery begins."""
RECOVERY = 400
"""Steps of half a second within which everything has to have ended."""
TOO_LONG = 60.0
NEVER = 10**9


def measure(scale: Scale, tell: Tell) -> Result:
    """Kill one process after the other, each at another step or pass, and let another process recover its store."""
    count = scale.of(600, 10)
    failures: list[str] = []
    facts = 0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        urls = {"sqlite": "", "postgres": stack.enter_context(running_postgres())}
        statements = {store: _count_statements(store, urls, Path(folder)) for store in STORES}
        for number, (store, order) in enumerate(itertools.islice(_orders(urls, Path(folder), statements), count)):
            with _own_store(store, order):
                problems, acknowledged = _kill_and_recover(order)
            failures += [f"{store}, {order.name}: {problem}" for problem in problems]
            facts += acknowledged
            tell(f"{number + 1} of {count} kills")
    measured = f"acknowledged writes {facts:,}, lost {len(failures)}"
    return Result({"kills": count, "stores": len(STORES), "steps": len(set(STEPS))}, measured, tuple(failures))


def _orders(urls: dict[str, str], folder: Path, statements: dict[str, int]) -> Iterator[tuple[str, Order]]:
    """Yield each step on each store, again and again, each time after one more pass; a migration begins again at its
    first statement when every one has had its kill."""
    chance = random.Random("kills")
    number = 0
    for passes in itertools.count(1):
        round_ = list(itertools.product(STORES, enumerate(STEPS)))
        chance.shuffle(round_)
        for store, (at, (verb, when, step)) in round_:
            number += 1
            times = passes
            if verb == "migrate":
                times = 1 + ((passes - 1) * MIGRATIONS + len(STEPS) - at - 1) % statements[store]
            yield store, _order((verb, when, step), times, store, urls, folder / str(number))


def _order(step: tuple[str, str, str], passes: int, store: str, urls: dict[str, str], place: Path) -> Order:
    place.mkdir()
    url = str(place / "store.db") if store == "sqlite" else _in_schema(urls[store], _schema_of(place))
    return Order(*step, passes, url, str(place), Instant(time.time_ns() // 1000))


def _count_statements(store: str, urls: dict[str, str], folder: Path) -> int:
    """Let one migration come to its end, and return of how many statements it consists."""
    order = _order(("migrate", "before", STATEMENT), NEVER, store, urls, folder / f"whole_{store}")
    with _own_store(store, order):
        _make_old_store(order)
        assert _run_child(order) == 0
    return int((Path(order.folder) / STATEMENTS).read_text(encoding="utf-8"))


def _schema_of(folder: Path) -> str:
    return f"kill_{folder.name}"


def _in_schema(url: str, name: str) -> str:
    joined = "&" if "?" in url else "?"
    return f"{url}{joined}options={quote(f'-csearch_path={name}')}"


@contextmanager
def _own_store(store: str, order: Order) -> Iterator[None]:
    """Use a store of its own within the block; the schema of a PostgreSQL store is dropped at the end."""
    yield
    if store == "postgres":
        with psycopg.connect(order.url, autocommit=True) as connection:
            name = sql.Identifier(_schema_of(Path(order.folder)))
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(name))


def _kill_and_recover(order: Order) -> tuple[list[str], int]:
    """Return what was lost, and how much had been acknowledged."""
    if order.verb == "migrate":
        _make_old_store(order)
    ended = _run_child(order)
    if ended != -signal.SIGKILL:
        return [f"the process ended with {ended} and was not killed at its step"], 0
    said = _lines(Path(order.folder) / "acknowledged")
    scene = Scene(order.url, Path(order.folder), "recovery", _clock_after(order), lambda step, when: None)
    try:
        problems = _recover(scene)
        problems += _lost(scene, said, Path(order.folder))
    finally:
        scene.app.close()
    return problems, len(said)


def _run_child(order: Order) -> int | None:
    """Return how the process ended; None where it had to be ended because it took too long."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([kill_child.__name__])
    process = context.Process(target=kill_child.main, args=(order,))
    process.start()
    process.join(TOO_LONG)
    ended = process.exitcode
    process.kill()
    return ended


def _clock_after(order: Order) -> SettableClock:
    return SettableClock(Instant(order.start + LATER * SECOND))


def _recover(scene: Scene) -> list[str]:
    """Let a worker go on until nothing is left to do."""
    for _ in range(RECOVERY):
        scene.pass_time(0.5)
        scene.worker.tick()
        health = scene.app.store.health(scene.clock.now())
        if health.due == 0 and health.running == 0:
            return []
    return ["not everything ended after the kill"]


def _lost(scene: Scene, said: list[list[Any]], folder: Path) -> list[str]:
    """Return what was acknowledged and is missing, and what was done more often than allowed."""
    store = scene.app.store
    assert isinstance(store, BaseStore)
    runs = {run.id: run for run in store.runs(RunQuery(limit=10_000, count_to=0)).items}
    problems = [
        f"the schedule {key} is not there" for verb, key in said if verb == "created" and not store.by_key("local", key)
    ]
    completed = {run for verb, run in said if verb == "completed"}
    problems += [f"run {run} is not completed" for run in completed if runs[run].status != RunStatus.COMPLETED]
    effects = _lines(folder / "effects-child") + _lines(folder / "effects-recovery")
    again = {run for _, run in _lines(folder / "effects-recovery")} & completed
    problems += [f"run {run} was completed and ran again" for run in sorted(again)]
    times = Counter(run for _, run in effects)
    for run in runs.values():
        at_most_once = run.name.endswith("-1")
        if at_most_once and times[run.id] > 1:
            problems.append(f"run {run.id} runs at most once and ran {times[run.id]} times")
        if run.status != RunStatus.COMPLETED and not (at_most_once and run.status == RunStatus.LOST):
            problems.append(f"run {run.id} of {run.name} is {run.status}: {run.error}")
    try:
        invariants(store)
    except AssertionError as error:
        problems.append(f"the store contradicts itself: {error}")
    return problems


def _lines(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _make_old_store(order: Order) -> None:
    """Create a store of the first schema with schedules, as the first version acknowledged them."""
    store = open_store(order.url, SettableClock(order.start))
    assert isinstance(store, BaseStore)
    dialect = "sqlite" if order.url.endswith(".db") else "postgres"
    try:
        if dialect == "postgres":
            write(store, f"CREATE SCHEMA {_schema_of(Path(order.folder))}")
        write(store, load_migrations(dialect)[0][1])
        _set_version(store, dialect)
        due = Instant(order.start + SECOND)
        trigger = trigger_to_json(OnceTrigger(timezone="UTC", at=due))
        said = kill_child.Log(Path(order.folder) / "acknowledged")
        for number in range(1, 4):
            key, now = f"{number}-0", order.start
            payload = json.dumps({"task": "work", "args": [], "kwargs": {"key": key, "fails": False}})
            row = (
                number,
                f"job_{number}",
                "job",
                "local",
                key,
                "work",
                trigger,
                payload,
                "{}",
                0,
                1,
                key,
                "",
                now,
                now,
            )
            write(store, "INSERT INTO schedules VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)
            write(
                store,
                "INSERT INTO progress (schedule, owner, kind, state, next, run_count, active, queued, failures)"
                " VALUES (?, 'local', 'job', 'active', ?, 0, 0, 0, 0)",
                number,
                due,
            )
            write(store, "INSERT INTO due (lane, at, schedule, run) VALUES ('job', ?, ?, 0)", due, number)
            said.say("created", key)
    finally:
        store.close()


def _set_version(store: BaseStore, dialect: str) -> None:
    if dialect == "sqlite":
        write(store, "PRAGMA user_version = 1")
    else:
        write(store, "INSERT INTO meta VALUES ('schema', 1)")
