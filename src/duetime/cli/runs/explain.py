"""`duetime explain`: what an expression means, how often it fires, and what clock changes do. Opens no store."""

from __future__ import annotations

from typing import Annotated

import typer

from duetime.cli.runs.preview import EXAMPLES, Dst, understood
from duetime.engine.clock import DAY, SECOND, Instant
from duetime.engine.triggers import OnceTrigger, Trigger, describe
from duetime.engine.triggers.base import WallTrigger
from duetime.service.presenters import instant_view
from duetime.terminal import output
from duetime.terminal.context import Json, Zone
from duetime.terminal.output import clean, coming, plural
from duetime.terminal.typer_ext import PlainCommand, single

MOST = 10_000
"""Maximum occurrences that are counted; for an expression that fires more often, the output says "more than"."""

commands = single()


@commands.command(cls=PlainCommand)
def explain(
    expression: Annotated[str, typer.Argument(metavar="EXPR", help=f"{EXAMPLES}.")],
    tz: Zone = None,
    dst: Dst = "debian",
    json_: Json = False,
) -> None:
    """Say in English what an expression means. How often it fires, what clock changes do to it, what may surprise."""
    trigger, warnings, zone, now = understood(expression, tz, dst)
    day, year = _count(trigger, now, 1), _count(trigger, now, 365)
    first = trigger.next_after(Instant(now - 1))
    if json_:
        counts = {"within_a_day": min(day, MOST), "within_a_year": min(year, MOST), "at_least": year > MOST}
        facts = {"expression": expression, "type": trigger.type, "reads_as": describe(trigger), "timezone": zone}
        known = {**counts, "clock_changes": _clocks(trigger, now), "next": instant_view(first, zone)}
        output.print_json(facts | known | {"warnings": warnings})
        return
    print(clean(describe(trigger)))
    output.facts([
        ("next", coming(first, zone, now)),
        *((("often", f"{_times(day)} in the next 24 hours, {_times(year)} in a year"),) if _recurs(trigger) else ()),
        ("clocks", _clocks(trigger, now)),
    ])  # fmt: skip
    output.warn(warnings)


def _recurs(trigger: Trigger) -> bool:
    return not isinstance(trigger, OnceTrigger)


def _count(trigger: Trigger, now: Instant, days: int) -> int:
    return trigger.count(now, Instant(now + days * DAY), MOST)


def _times(number: int) -> str:
    return f"more than {MOST:,} times" if number > MOST else plural(number, "time")


def _clocks(trigger: Trigger, now: Instant) -> str:
    if not isinstance(trigger, WallTrigger):
        return "it counts elapsed time, whatever clocks show" if _recurs(trigger) else "it is one instant"
    second = now // SECOND
    if next(trigger.clock.changes(second, second + 366 * DAY // SECOND), None) is None:
        return f"none changes in {trigger.timezone} within a year"
    if trigger.follows:
        return "it follows the wall clock: a time that is skipped does not run, one that comes twice runs twice"
    return "a time that is skipped runs right after the gap, one that comes twice runs once"
