"""The prepared stores on which questions are asked, and what they contain before and after an answer.

What they schedule begins in 2031, so nothing fires while a question is answered. What happened days ago was played on a
simulated clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from duetime import Duetime
from duetime.engine.clock import SystemClock, datetime_of
from duetime.settings import Settings
from duetime.testing import Simulation
from evaluation.questions import Change

ZONE = "Europe/Berlin"
TASKS = "duetime.cli.serve.demo_tasks"
"""Tasks that the server of a question has besides the built-in ones; one of them always fails."""
YEAR = "2031-01-01"


def _settings(file: Path) -> Settings:
    return Settings(db=str(file), timezone=ZONE, tasks=(TASKS,))


def opened(file: Path) -> Duetime:
    return Duetime(settings=_settings(file))


def prepare(name: str, file: Path) -> None:
    """Create a prepared store; `name` is a key of STORES."""
    if name in EARLIER:
        with Simulation(datetime_of(SystemClock().now()) - timedelta(days=6), settings=_settings(file)) as simulation:
            EARLIER[name](simulation)
    with opened(file) as duetime:
        STORES[name](duetime)


def _empty(duetime: Duetime) -> None:
    """Leave the store empty."""


def _office(duetime: Duetime) -> None:
    """Two jobs, a prompt and three notifications."""
    duetime.schedule("echo", args=["report ready"], name="nightly report", cron="0 2 * * *", start=YEAR)
    duetime.schedule("echo", args=["3 waiting"], name="queue check", every="30m", start="2031-01-01T08:00:00+01:00")
    duetime.prompt("Summarise the open pull requests", name="pull requests", cron="30 8 * * 1-5", start=YEAR)
    duetime.notify("Standup in five minutes", "team-standup", name="standup", cron="55 8 * * 1-5", start=YEAR)
    duetime.notify("Retrospective", "team-standup", name="retro", cron="0 15 * * 5", start=YEAR)
    duetime.notify("Dentist appointment", "family", name="dentist", at="2031-03-03T10:00:00+01:00")


def _paused(duetime: Duetime) -> None:
    """The office, of which three are paused."""
    _office(duetime)
    duetime.pause("nightly report", note="the database is being moved")
    duetime.pause("queue check", until="2031-03-03T09:00:00+01:00")
    duetime.pause("pull requests")


def _failures(duetime: Duetime) -> None:
    """Three runs failed, one of a schedule that was deleted since; one succeeded."""
    for name in ("invoice import", "old backup"):
        duetime.schedule("demo_unlucky", name=name, cron="0 3 * * *", start=YEAR, alert="off")
        duetime.run_now(name, wait=30)
    duetime.delete("old backup")
    duetime.schedule("echo", args=["41 GB free"], name="disk check", cron="0 4 * * *", start=YEAR)
    duetime.run_now("disk check", wait=30)
    duetime.prompt("Plan the week by the calendar", name="week plan", cron="0 7 * * 1", start=YEAR, alert="off")
    duetime.run_now("week plan")
    duetime.finish_prompt(_taken(duetime), error="the calendar could not be read")


def _running(duetime: Duetime) -> None:
    """Two prompts are in the hands of an agent, one of them recurring; a third one is due later."""
    duetime.prompt("Watch the build", name="build watch", cron="0 * * * *", start=YEAR)
    duetime.run_now("build watch")
    _taken(duetime)
    duetime.prompt("Draft the newsletter", name="newsletter")
    _taken(duetime)
    duetime.prompt("Order seeds", name="seeds", at="2031-04-01T09:00:00+02:00")


def _reminder_cancelled(simulation: Simulation) -> None:
    """A reminder was cancelled before its time, which has passed since."""
    simulation.duetime.notify("Call mum", "family", name="call mum", delay="1h")
    simulation.duetime.cancel("call mum")


def _gone(duetime: Duetime) -> None:
    """The office, of which one was deleted and one was cancelled."""
    _office(duetime)
    duetime.delete("retro")
    duetime.cancel("queue check")


def _ended_days_ago(simulation: Simulation) -> None:
    """Two one-offs ran days ago."""
    simulation.duetime.schedule("echo", args=["12 rows"], name="old import", delay="1h")
    simulation.duetime.schedule("echo", args=["hello"], name="first greeting", delay="2h")
    simulation.advance(timedelta(hours=3))


def _finished(duetime: Duetime) -> None:
    """A third one-off has ended just now, and the office goes on."""
    _office(duetime)
    duetime.schedule("echo", args=["7 rows"], name="new import", delay=0.1).wait(30)


def _missed_days_ago(simulation: Simulation) -> None:
    """No worker ran when a job was due for its only time, and nobody took a prompt."""
    end = simulation.now + timedelta(days=2)
    simulation.duetime.schedule(
        "echo", args=["stall 7"], name="flea market", every="30h", catch_up="skip", end=end, alert="off"
    )
    simulation.duetime.prompt("Ask where the parcel is", name="parcel", delay="47h")
    simulation.clock.move_to(end)
    simulation.settle()


def _waiting(duetime: Duetime) -> None:
    """Two runs have failed just now."""
    for name in ("invoice import", "bank import"):
        duetime.schedule("demo_unlucky", name=name, cron="0 3 * * *", start=YEAR, alert="off")
        duetime.run_now(name, wait=30)


def _holiday(duetime: Duetime) -> None:
    """The office, all of which is paused."""
    _office(duetime)
    duetime.change_many("pause", everything=True, until="2031-05-01T08:00:00+02:00")


def _happened_days_ago(simulation: Simulation) -> None:
    """A backup that others follow, two schedules that wait for events, of which two arrived, and one with a condition,
    which has looked once."""
    duetime = simulation.duetime
    duetime.schedule("echo", args=["3 files"], name="backup", cron="0 2 * * *", start=YEAR)
    duetime.schedule("echo", args=["uploaded {text}"], name="upload", after="backup")
    duetime.schedule("echo", args=["tidy"], name="cleanup", after="upload ends")
    duetime.notify("The backup failed: {error}", "ops", name="backup alarm", after="backup fails")
    duetime.prompt("Review what was pushed", name="review", on="github.push where ref = refs/heads/main")
    duetime.schedule("echo", args=["order {number}"], name="orders", on="shop.order")
    condition = "echo('full') | changed()"
    duetime.schedule("echo", args=["42 left"], name="stock", cron="30 1 * * *", start=YEAR, only_if=condition)
    duetime.run_now("stock")
    duetime.emit("deploy.done", {"version": 5})
    duetime.emit("shop.order", {"number": 41})
    simulation.settle()


def _taken(duetime: Duetime) -> int:
    taken = duetime.take_prompt(wait=30, lease="6h")
    assert taken is not None, "the prompt is not due"
    return taken.run_id


STORES: dict[str, Callable[[Duetime], None]] = {
    "empty": _empty,
    "office": _office,
    "paused": _paused,
    "failures": _failures,
    "running": _running,
    "gone": _gone,
    "finished": _finished,
    "waiting": _waiting,
    "holiday": _holiday,
    "happenings": _empty,
}
EARLIER: dict[str, Callable[[Simulation], None]] = {
    "gone": _reminder_cancelled,
    "finished": _ended_days_ago,
    "waiting": _missed_days_ago,
    "happenings": _happened_days_ago,
}
"""What happened in a store six days ago."""


Rows = dict[str, dict[str, Any]]


class Contents(NamedTuple):
    """The rows of a store, by id. Whether the schedule of a run was deleted is seen among the schedules."""

    schedules: Rows
    runs: Rows
    incidents: Rows
    hooks: Rows


def contents(duetime: Duetime) -> Contents:
    return Contents(
        {each.id: each.as_dict() for each in duetime.schedules()},
        {str(each.run_id): {**each.as_dict(), "schedule_deleted": None} for each in duetime.history(limit=100)},
        {str(each.key): {"name": each.name, "status": each.status} for each in duetime.server_status().problems},
        {each.id: {"name": each.name, "scheme": each.scheme} for each in duetime.hooks()},
    )


class _Difference(NamedTuple):
    what: str
    name: str
    row: dict[str, Any]


def problems(before: Contents, after: Contents, changes: Sequence[Change]) -> list[str]:
    """Return what is not as the changes say. What they do not name has to be as it was before, apart from incidents,
    which follow from runs."""
    deleted = [row for id, row in before.schedules.items() if id not in after.schedules]
    left = [_Difference("deleted", row["name"], row) for row in deleted]
    left += _differences("schedule", before.schedules, after.schedules)
    left += _differences("run", before.runs, after.runs)
    left += _differences("hook", before.hooks, after.hooks)
    if any(change.what == "incident" for change in changes):
        left += _differences("incident", before.incidents, after.incidents)
    found = []
    for change in changes:
        fitting = [each for each in left if (each.what, each.name) == (change.what, change.name)]
        if not fitting:
            found.append(f"{change.what} {change.name!r} is as before or does not exist")
            continue
        left.remove(fitting[0])
        for path, expected in change.fields.items():
            if (actual := _field(fitting[0].row, path)) != expected:
                found.append(f"{change.what} {change.name!r}: {path} is {actual!r} and not {expected!r}")
    return found + [f"{each.what} {each.name!r} was changed, created or deleted" for each in left]


def _differences(what: str, old: Rows, new: Rows) -> list[_Difference]:
    return [_Difference(what, row["name"], row) for id, row in new.items() if old.get(id) != row]


def _field(row: dict[str, Any], path: str) -> str:
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)
