"""`duetime next` and `explain`: when an expression fires, and what it means. Neither opens a store."""

from __future__ import annotations

from typing import Annotated

from duetime.engine.clock import SystemClock, datetime_of
from duetime.service.operations.explain import EXAMPLES, MAX_COUNTED, Explanation
from duetime.service.operations.explain import explain as read_explanation
from duetime.service.options import time_options
from duetime.service.presenters import instant_view, preview_view
from duetime.service.vocabulary import known_zone
from duetime.settings import local_zone
from duetime.terminal import output
from duetime.terminal.completion import Zone
from duetime.terminal.context import Json, settings_for
from duetime.terminal.declarations import argument, option, single
from duetime.terminal.output import clean, coming, plural, relative

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


@commands.command(name="next", reads=True, epilog=_SHOW_NEXT_EXAMPLES)
def show_next(
    expression: Expression,
    tz: Zone = None,
    count: Annotated[int, option("-n --count", "Number of times to show.", min=1, max=1000)] = 5,
    start: Annotated[str | None, option("--start TIME", time_options()["start"].sentence)] = None,
    end: Annotated[str | None, option("--end TIME", time_options()["end"].sentence)] = None,
    dst: Dst = "debian",
    json_: Json = False,
) -> None:
    """Show when an expression fires next, in local time and UTC, with its meaning in English and anything
    surprising."""
    rule = _explained(expression, tz, dst, start=start, end=end)
    instants = rule.next(count)
    if json_:
        times = preview_view(rule.english, instants, rule.warnings, rule.zone)
        output.print_json({"expression": expression, **times})
        return
    output.say(clean(rule.english))
    narrow = output.width() < NARROW
    for instant in instants:
        utc = datetime_of(instant)
        universal = "" if narrow else f"   {utc:%Y-%m-%d %H:%M:%S}Z"
        local = utc.astimezone(known_zone(rule.zone))
        print(f"  {local:%a %Y-%m-%d %H:%M:%S} {local.tzname()}{universal}   {relative(instant, rule.now)}")
    output.warn(rule.warnings)


def _explained(expression: str, tz: str | None, dst: str, **limits: str | None) -> Explanation:
    """Return what an expression means now, in the given or the local zone."""
    zone = known_zone(tz).key if tz else local_zone(settings_for())
    return read_explanation(expression, zone, SystemClock().now(), dst, **limits)


# `duetime explain`

explain_commands = single()


_EXPLAIN_EXAMPLES = """\
duetime explain "0 9 31 * *"
duetime explain "FREQ=MONTHLY;BYDAY=-1FR"
"""


@explain_commands.command(reads=True, epilog=_EXPLAIN_EXAMPLES)
def explain(expression: Expression, tz: Zone = None, dst: Dst = "debian", json_: Json = False) -> None:
    """Explain an expression in English: how often it fires, what clock changes do to it, and anything surprising."""
    rule = _explained(expression, tz, dst)
    day, year, zone = rule.count(1), rule.count(365), rule.zone
    first = next(iter(rule.next(1)), None)
    if json_:
        most = MAX_COUNTED
        counts = {"within_a_day": min(day, most), "within_a_year": min(year, most), "at_least": year > most}
        facts = {"expression": expression, "type": rule.trigger.type, "reads_as": rule.english, "timezone": zone}
        known = {**counts, "clock_changes": rule.clock_changes, "next": instant_view(first, zone)}
        output.print_json(facts | known | {"warnings": rule.warnings})
        return
    output.say(clean(rule.english))
    output.facts([
        ("next", coming(first, zone, rule.now)),
        *((("often", f"{_times(day)} in the next 24 hours, {_times(year)} in a year"),) if rule.recurs else ()),
        ("clocks", rule.clock_changes),
    ])  # fmt: skip
    output.warn(rule.warnings)


def _times(number: int) -> str:
    return f"more than {MAX_COUNTED:,} times" if number > MAX_COUNTED else plural(number, "time")
