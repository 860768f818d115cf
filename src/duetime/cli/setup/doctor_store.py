"""Checks of a reachable store: its schema, its clock, its workers, and schedules with problems."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from duetime.app import App, build
from duetime.cli.setup.doctor_machine import OPERATOR_TASKS
from duetime.engine.clock import MINUTE, SECOND, Clock, Instant
from duetime.engine.model import Schedule
from duetime.engine.redaction import without_password
from duetime.engine.result import Err
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import EVERY_ONE, Health, Page, ScheduleQuery
from duetime.kinds.jobs.registry import Registry
from duetime.kinds.notifications.build import notes_for_others
from duetime.kinds.notifications.kind import NotificationKind
from duetime.kinds.prompts.checks import unknown_agents
from duetime.service.errors import unwrap
from duetime.service.kind_spec import known_specs
from duetime.service.presenters import is_alive
from duetime.service.services import OPERATOR
from duetime.settings import Settings
from duetime.terminal.application import Check
from duetime.terminal.context import program
from duetime.terminal.output import clean, plural, relative, span

SKEW = 1 * SECOND
LOOKED_AT = 1000
"""Jobs whose tasks are looked up: enough to notice missing tasks, and still fast."""

COMMAND, COMMAND_MODULE = "run_command", "duetime.kinds.command"
"""The task that crontab lines become, and its module, which registers it only if the settings import it."""


def store_checks(settings: Settings, registry: Registry, clock: Clock) -> Iterator[Check]:
    app = build(settings, clock=clock, tasks=False)
    try:
        health = app.store.health(clock.now())
        yield Check("ok", "store", f"{health.details.get('engine', '')} at {clean(app.store.url)}")
        yield Check("ok", "schema", f"version {health.schema}, {plural(health.schedules, 'schedule')}")
        yield from _clock(app, clock)
        alive = yield from _workers(app, clock.now())
        yield from _overdue(health, alive, clock.now())
        yield from _elsewhere(app)
        yield from _troubled(app.scheduler)
        yield from _unknown_tasks(app.scheduler, registry)
        yield from unknown_agents(app.scheduler, settings)
        for note in notes_for_others(
            app.scheduler, settings, app.services.kind(NotificationKind).delivery, addresses=True
        ):
            yield Check("warn", "delivery", clean(note))
    finally:
        app.close()


def _clock(app: App, clock: Clock) -> Iterator[Check]:
    before = clock.now()
    there = app.store.now()
    if there is None:
        return  # a store in a file has no clock of its own
    apart = there - (before + clock.now()) // 2
    if abs(apart) > SKEW:
        side = "ahead of" if apart > 0 else "behind"
        message = f"the database's clock is {span(abs(apart))} {side} this machine's; set both by NTP"
        yield Check("warn", "clock", message)
    else:
        yield Check("ok", "clock", f"this machine and the database agree within {span(abs(apart))}")


def _workers(app: App, now: Instant) -> Generator[Check, None, int]:
    rows = app.scheduler.workers()
    alive = [row for row in rows if is_alive(row, now)]
    for row in rows:
        seen = relative(row.seen, now)
        if row in alive:
            yield Check("ok", "worker", f"{clean(row.name)}, last beat {seen}")
        else:
            yield Check("warn", "worker", f"{clean(row.name)} is silent, last beat {seen}; its runs wait for a worker")
    if not alive:
        db = app.settings.db
        how = program("worker", *(("--db", without_password(db)) if db else ()))
        yield Check("warn", "worker", f"none is running, so nothing fires; start one: {how}")
    return len(alive)


def _overdue(health: Health, alive: int, now: Instant) -> Iterator[Check]:
    oldest = health.oldest_due
    if not health.overdue or oldest is None:
        yield Check("ok", "due", f"nothing is overdue; {plural(health.running, 'run')} in hand")
    elif alive and now - oldest < MINUTE:
        yield Check("ok", "due", f"{health.overdue:,} due now, the oldest since {span(now - oldest)}")
    else:
        cause = "the workers do not keep up: start more, or give them --threads" if alive else "start a worker"
        yield Check("warn", "due", f"{health.overdue:,} overdue, the oldest by {span(now - oldest)}; {cause}")


def _elsewhere(app: App) -> Iterator[Check]:
    if app.remote is None:
        return
    found = app.remote.check()
    if isinstance(found, Err):
        yield Check("fail", "qstash", clean(found.message))
    else:
        yield Check("ok", "qstash", f"it keeps the notifications, and answers; {plural(found.value, 'schedule')} there")
    here = unwrap(app.scheduler.search(OPERATOR, ScheduleQuery(kind="notification", status="living", limit=1))).total
    if here:
        message = f"kept and fired here, from before: {plural(here, 'notification')}, which the tools do not show"
        yield Check("warn", "qstash", f'{message}; to see and delete them, set notifications.backend = "local"')


def _troubled(scheduler: Scheduler) -> Iterator[Check]:
    broken, failed = _some(scheduler, "broken"), _some(scheduler, "failed")
    if broken.items:
        advice = f"mend the trigger with {_command(broken, 'edit ID')}, or delete it"
        yield Check("fail", "broken", f"{_named(broken)}; {advice}")
    else:
        yield Check("ok", "broken", "no schedule is broken")
    if failed.items:
        yield Check("warn", "failed", f"{_named(failed)}; {_command(failed, 'history ID')} shows why")
    else:
        yield Check("ok", "failed", "no schedule failed last time")


def _some(scheduler: Scheduler, status: str) -> Page[Schedule]:
    return unwrap(
        scheduler.search(OPERATOR, ScheduleQuery(status=status, newest_first=True, limit=3, count_to=EVERY_ONE))
    )


def _named(page: Page[Schedule]) -> str:
    named = ", ".join(f"{clean(item.definition.name)} ({item.definition.public_id})" for item in page.items)
    return f"{page.total:,}: {named}{'' if page.total <= len(page.items) else ' and others'}"


def _command(page: Page[Schedule], verb: str) -> str:
    """Return the commands for the kinds on the page; requests have none, and are shown in the dashboard."""
    kinds = {item.definition.kind for item in page.items}
    named = [f"`{spec.command} {verb}`" for spec in known_specs().values() if spec.command and spec.name in kinds]
    return " or ".join(named or ["the dashboard"])


def _unknown_tasks(scheduler: Scheduler, registry: Registry) -> Iterator[Check]:
    unknown: dict[str, int] = {}
    for status in ("pending", "running", "paused"):
        page = unwrap(scheduler.search(OPERATOR, ScheduleQuery(kind="job", status=status, limit=LOOKED_AT)))
        for item in page.items:
            if registry.get(item.definition.subject) is None and item.definition.subject not in OPERATOR_TASKS:
                unknown[item.definition.subject] = unknown.get(item.definition.subject, 0) + 1
    if unknown:
        named = ", ".join(f"{clean(name)} ({number})" for name, number in sorted(unknown.items())[:5])
        advice = "the worker needs their modules: --tasks MODULE, or tasks in duetime.toml"
        advice += f"; {COMMAND} is in {COMMAND_MODULE}" if COMMAND in unknown else ""
        yield Check("warn", "tasks", f"jobs call tasks that are not known here: {named}; {advice}")
