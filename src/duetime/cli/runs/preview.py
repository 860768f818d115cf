"""`duetime next`: what a trigger means and when it fires, before anything is scheduled. Opens no store."""

from __future__ import annotations

import shutil
from typing import Annotated, Any, NamedTuple

import typer

from duetime.engine.clock import SECOND, Instant, SystemClock, datetime_of
from duetime.engine.errors import InvalidInput, UnreadableTime
from duetime.engine.times import read_time
from duetime.engine.triggers import Trigger, build_trigger, describe, known_zone, warnings_for
from duetime.engine.triggers.step_budget import CREATION_STEPS, step_budget
from duetime.service.presenters import preview_view
from duetime.service.when import duration
from duetime.settings import local_zone
from duetime.terminal import output
from duetime.terminal.context import Json, Zone
from duetime.terminal.output import clean, relative
from duetime.terminal.settings import settings_for
from duetime.terminal.typer_ext import PlainCommand, single

EXAMPLES = '"0 9 * * 1-5", "@daily", "every 2h", "RRULE:FREQ=WEEKLY", or a time such as "tomorrow 9am"'

Dst = Annotated[
    str, typer.Option("--dst", metavar="HOW", help="For cron: debian, or literal (the wall clock to the letter).")
]

NARROW = 72
"""Columns below which there is no space for UTC."""

commands = single()


@commands.command(name="next", cls=PlainCommand)
def show_next(
    expression: Annotated[
        str,
        typer.Argument(metavar="EXPR", help=f"{EXAMPLES}."),
    ],
    tz: Zone = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=1000, help="How many instants.")] = 5,
    dst: Dst = "debian",
    json_: Json = False,
) -> None:
    """Show when an expression fires next. In local time and UTC, with what it says in English and what may surprise."""
    trigger, warnings, zone, now = understood(expression, tz, dst)
    instants = upcoming(trigger, now, count)
    if json_:
        output.print_json({"expression": expression, **preview_view(describe(trigger), instants, warnings, zone)})
        return
    print(clean(describe(trigger)))
    narrow = output.is_terminal() and shutil.get_terminal_size().columns < NARROW
    for instant in instants:
        utc = datetime_of(instant)
        universal = "" if narrow else f"   {utc:%Y-%m-%d %H:%M:%S}Z"
        print(f"  {_shown(utc.astimezone(known_zone(zone)))}{universal}   {relative(instant, now)}")
    output.warn(warnings)


class Understood(NamedTuple):
    trigger: Trigger
    warnings: list[str]
    """How an ambiguous expression was read, and what may surprise."""
    zone: str
    now: Instant


def understood(expression: str, tz: str | None, dst: str) -> Understood:
    """Return what an expression means now, in the given or the local zone."""
    now = SystemClock().now()
    zone = known_zone(tz).key if tz else local_zone(settings_for())
    with step_budget(CREATION_STEPS):  # the limit of a create, so that both refuse the same expressions
        trigger, notes = _trigger_in(expression, zone, now, dst)
        return Understood(trigger, notes + warnings_for(trigger, now), zone, now)


def _trigger_in(expression: str, zone: str, now: Instant, dst: str) -> tuple[Trigger, list[str]]:
    kind, config = read_expression(expression)
    if kind == "cron":
        config["dst"] = dst
    if kind != "once":
        return build_trigger(kind, config, zone=zone, now=now), []
    try:
        note = read_time(config["run_at"], zone=zone, now=now).note
    except UnreadableTime:
        raise UnreadableTime(f'EXPR: "{config["run_at"][:60]}" cannot be read; give {EXAMPLES}') from None
    return build_trigger(kind, config, zone=zone, now=now), [note] if note else []


def _shown(local: Any) -> str:
    return f"{local:%a %Y-%m-%d %H:%M:%S} {local.tzname()}"


def read_expression(text: str) -> tuple[str, dict[str, Any]]:
    """Return the type of trigger that the text means, and its configuration."""
    tidy = " ".join(text.split())
    lower = tidy.lower()
    if not tidy:
        raise InvalidInput(f"EXPR: is empty; give {EXAMPLES}")
    if lower.startswith("every "):
        return "interval", {"seconds": duration(tidy[6:], "EXPR") / SECOND}
    if lower.startswith(("rrule:", "freq=")):
        return "rrule", {"rrule": tidy[6:] if lower.startswith("rrule:") else tidy}
    if lower.startswith("@") or len(tidy.split(" ")) >= 5 or "*" in tidy:
        return "cron", {"expression": tidy}
    return "once", {"run_at": tidy}


def upcoming(trigger: Trigger, now: Instant, count: int) -> list[Instant]:
    instants: list[Instant] = []
    following = trigger.next_after(Instant(now - 1))
    while following is not None and len(instants) < count:
        instants.append(following)
        following = trigger.next_after(following)
    return instants
