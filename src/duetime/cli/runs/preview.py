"""`duetime next` and `explain`: when an expression fires, and what it means. Neither opens a store."""

from __future__ import annotations

import re
import shutil
from typing import Annotated, Any, NamedTuple

from duetime.engine.clock import DAY, SECOND, Instant, SystemClock, datetime_of
from duetime.engine.errors import InvalidInput, UnreadableTime
from duetime.engine.times import read_time
from duetime.engine.triggers import OnceTrigger, Trigger, build_trigger, warnings_for
from duetime.engine.triggers.base import WallTrigger
from duetime.engine.triggers.step_budget import CREATION_STEPS, step_budget
from duetime.service.presenters import instant_view, preview_view
from duetime.service.vocabulary import describe, known_zone
from duetime.service.when import read_phrase
from duetime.settings import local_zone
from duetime.terminal import output
from duetime.terminal.completion import Zone
from duetime.terminal.context import Json, settings_for
from duetime.terminal.output import clean, coming, plural, relative
from duetime.terminal.typer_ext import ReadCommand, argument, option, single

EXAMPLES = '"0 9 * * 1-5", "every 2h", "every weekday at 8:30", "RRULE:FREQ=WEEKLY", or a time such as "tomorrow 9am"'

Expression = Annotated[str, argument("EXPR", f"{EXAMPLES}.")]
Dst = Annotated[
    str,
    option("--dst HOW", "When clocks change, cron follows Debian (debian) or the wall clock to the letter (literal)."),
]

NARROW = 72
"""Width below which there is no space for UTC, in columns."""

commands = single()


_SHOW_NEXT_EXAMPLES = """\
duetime next "0 9 * * 1-5" --tz Europe/Berlin
duetime next "every 2 hours" -n 10
"""


@commands.command(name="next", cls=ReadCommand, epilog=_SHOW_NEXT_EXAMPLES)
def show_next(
    expression: Expression,
    tz: Zone = None,
    count: Annotated[int, option("-n --count", "Number of times to show.", min=1, max=1000)] = 5,
    dst: Dst = "debian",
    json_: Json = False,
) -> None:
    """Show when an expression fires next, in local time and UTC, with its meaning in English and anything
    surprising."""
    trigger, warnings, zone, now = understood(expression, tz, dst)
    instants: list[Instant] = []
    following = trigger.next_after(Instant(now - 1))
    while following is not None and len(instants) < count:
        instants.append(following)
        following = trigger.next_after(following)
    if json_:
        output.print_json({"expression": expression, **preview_view(describe(trigger), instants, warnings, zone)})
        return
    output.say(clean(describe(trigger)))
    narrow = output.is_terminal() and shutil.get_terminal_size().columns < NARROW
    for instant in instants:
        utc = datetime_of(instant)
        universal = "" if narrow else f"   {utc:%Y-%m-%d %H:%M:%S}Z"
        local = utc.astimezone(known_zone(zone))
        print(f"  {local:%a %Y-%m-%d %H:%M:%S} {local.tzname()}{universal}   {relative(instant, now)}")
    output.warn(warnings)


class Understood(NamedTuple):
    trigger: Trigger
    warnings: list[str]
    """How an ambiguous expression was understood, and what may be unexpected."""
    zone: str
    now: Instant


def understood(expression: str, tz: str | None, dst: str) -> Understood:
    """Return what an expression means now, in the given or the local zone."""
    now = SystemClock().now()
    zone = known_zone(tz).key if tz else local_zone(settings_for())
    kind, config = read_expression(expression)
    if kind == "cron":
        config["dst"] = dst
    note = None
    if kind == "once":
        try:
            note = read_time(config["run_at"], zone=zone, now=now).note
        except UnreadableTime:
            raise UnreadableTime(f'EXPR: "{config["run_at"][:60]}" cannot be read; give {EXAMPLES}') from None
    with step_budget(CREATION_STEPS):  # the limit of a create, so that both refuse the same expressions
        trigger = build_trigger(kind, config, zone=zone, now=now)
        return Understood(trigger, [*([note] if note else []), *warnings_for(trigger, now)], zone, now)


def read_expression(text: str) -> tuple[str, dict[str, Any]]:
    """Return the type of trigger that the text means, and its configuration."""
    normalized = " ".join(text.split())
    if not normalized:
        raise InvalidInput(f"EXPR: is empty; give {EXAMPLES}")
    is_cron = normalized[0] in "@*" or "*" in normalized or re.match(r"\d+( \S+){4}", normalized) is not None
    if is_cron and not normalized.lower().startswith(("rrule:", "freq=")):
        return "cron", {"expression": normalized}
    try:
        return read_phrase(normalized)
    except InvalidInput as error:
        raise InvalidInput(f"EXPR: {error.message.removeprefix('when: ')}") from None


# `duetime explain`

MOST = 10_000
"""Maximum occurrences that are counted; for an expression that fires more often, the output says "more than"."""

explain_commands = single()


_EXPLAIN_EXAMPLES = """\
duetime explain "0 9 31 * *"
duetime explain "FREQ=MONTHLY;BYDAY=-1FR"
"""


@explain_commands.command(cls=ReadCommand, epilog=_EXPLAIN_EXAMPLES)
def explain(expression: Expression, tz: Zone = None, dst: Dst = "debian", json_: Json = False) -> None:
    """Explain an expression in English: how often it fires, what clock changes do to it, and anything surprising."""
    trigger, warnings, zone, now = understood(expression, tz, dst)
    recurs = not isinstance(trigger, OnceTrigger)
    day, year = (trigger.count(now, Instant(now + days * DAY), MOST) for days in (1, 365))
    first = trigger.next_after(Instant(now - 1))
    if json_:
        counts = {"within_a_day": min(day, MOST), "within_a_year": min(year, MOST), "at_least": year > MOST}
        facts = {"expression": expression, "type": trigger.type, "reads_as": describe(trigger), "timezone": zone}
        known = {**counts, "clock_changes": _clocks(trigger, now), "next": instant_view(first, zone)}
        output.print_json(facts | known | {"warnings": warnings})
        return
    output.say(clean(describe(trigger)))
    output.facts([
        ("next", coming(first, zone, now)),
        *((("often", f"{_times(day)} in the next 24 hours, {_times(year)} in a year"),) if recurs else ()),
        ("clocks", _clocks(trigger, now)),
    ])  # fmt: skip
    output.warn(warnings)


def _times(number: int) -> str:
    return f"more than {MOST:,} times" if number > MOST else plural(number, "time")


def _clocks(trigger: Trigger, now: Instant) -> str:
    if not isinstance(trigger, WallTrigger):
        once = isinstance(trigger, OnceTrigger)
        return "it is one instant" if once else "it counts elapsed time and ignores clock changes"
    second = now // SECOND
    if next(trigger.clock.changes(second, second + 366 * DAY // SECOND), None) is None:
        return f"they do not change in {trigger.timezone} within a year"
    if trigger.follows:
        return "it follows the wall clock: a time that is skipped does not run, one that comes twice runs twice"
    return "a time that is skipped runs right after the gap, one that comes twice runs once"
