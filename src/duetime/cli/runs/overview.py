"""`duetime list`, `upcoming` and `status`: schedules of all kinds, what fires next, and what is set up and works."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

from duetime.cli.runs.kind_option import Kind, known_kind
from duetime.engine.clock import instant_of
from duetime.service.operations.schedules import ListSchedules
from duetime.service.vocabulary import clock_local
from duetime.terminal import output
from duetime.terminal.completion import TOPICS
from duetime.terminal.context import Application, Cursor, Db, Json, opened, program
from duetime.terminal.declarations import option, single
from duetime.terminal.output import ahead, clean, in_words, plural
from duetime.terminal.schedules.commands import Everything, Status, Tagged
from duetime.terminal.schedules.kind_view import ANY_KIND
from duetime.terminal.schedules.read import LIVING, list_schedules

Subject = Annotated[str | None, option("--topic TEXT", "Only with this topic, task or agent.", **TOPICS)]

list_commands = single()


@list_commands.command(
    reads=True,
    name="list",
    epilog="duetime list\nduetime list --kind job --status failed\nduetime list --tagged nightly --all",
)
def list_(
    kind: Kind = None,
    status: Status = None,
    text: Annotated[str | None, option("--search TEXT", "Only those whose name contains this text.")] = None,
    subject: Subject = None,
    tagged: Tagged = None,
    everything: Everything = False,
    limit: Annotated[int, option("--limit -n", "Maximum number to show.", min=1, max=1000)] = 50,
    cursor: Cursor = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """List schedules of all kinds, next due first. Those that have ended are left out unless --all or --status asks for
    them."""
    request = ListSchedules(
        kind=known_kind(kind),
        status=status or (None if everything else LIVING),
        text=text,
        subject=subject,
        tagged=tagged,
        order="time",
        limit=limit,
        cursor=cursor,
    )
    with opened(db) as app:
        list_schedules(app, ANY_KIND, request, json_, everything=everything)


upcoming_commands = single()


_UPCOMING_EXAMPLES = """\
duetime upcoming
duetime upcoming --from tomorrow --until tomorrow
duetime upcoming --kind prompt -n 5
"""


@upcoming_commands.command(reads=True, former={"--count": "--limit", "--to": "--until"}, epilog=_UPCOMING_EXAMPLES)
def upcoming(
    start: Annotated[str | None, option("--from TIME", "Only from this time on, such as tomorrow.")] = None,
    until: Annotated[str | None, option("--until TIME", "Only up to this time; a date includes the whole day.")] = None,
    kind: Kind = None,
    topic: Subject = None,
    tagged: Tagged = None,
    paused: Annotated[bool, option("--paused", "Include paused schedules.")] = False,
    limit: Annotated[int, option("--limit -n", "Maximum number to show.", min=1, max=1000)] = 20,
    db: Db = None,
    json_: Json = False,
) -> None:
    """List what fires next, of all kinds, in chronological order."""
    from duetime.service.operations.upcoming import MORE_ON_EVENTS, ListUpcoming
    from duetime.service.operations.upcoming import upcoming as read_upcoming

    request = ListUpcoming(
        start=start, until=until, kind=known_kind(kind), topic=topic, tagged=tagged, include_paused=paused, count=limit
    )
    with opened(db) as app:
        upcoming_times, warnings, _ = read_upcoming(app.call, request)
        if json_:
            output.print_json(upcoming_times.facts(app.call.zone, warnings))
        elif upcoming_times.rows:
            rows = [_row(app, each) for each in upcoming_times.rows]
            output.table(
                ["AT", "IN", "ID", "KIND", "NAME", "WHEN"], rows, whole=3, spare={"KIND": 20, "WHEN": output.READABLE}
            )
        else:
            limits = "in that time" if start or until else "that matches" if kind or topic or tagged else "to fire"
            output.say(f"Nothing is scheduled {limits}. Add something: {program('notify', 'add', '--help')}")
        if upcoming_times.more and len(upcoming_times.rows) == limit and not json_:
            output.say("There is more; --limit shows it.")
        output.warn([each.text for each in warnings if json_ or each.text != MORE_ON_EVENTS])  # the table has none


def _row(app: Application, row: dict[str, Any]) -> list[object]:
    zone, at = app.call.zone, instant_of(datetime.fromisoformat(row["at"]))
    rule = str(row["reads_as"]).replace(f" ({zone})", "")
    name = f"{row['name']}{' (paused)' if row.get('paused') else ''}"
    return [clock_local(at, zone), ahead(at, app.clock.now()), row["short_id"], row["kind"], name, rule]


status_commands = single()
_MOST_PROBLEMS = 5


@status_commands.command(reads=True)
def status(db: Db = None, json_: Json = False) -> None:
    """Show what is set up and whether it works: workers, channels, topics, agents, limits, usage and failures."""
    from duetime.service.operations.status import limit_text
    from duetime.service.operations.status import status as read_status

    with opened(db) as app:
        view = read_status(app.call).value
    if json_:
        output.print_json(view)
        return
    server, failed = view["server"], view["failures_of_the_last_day"]
    workers = [f"{each['name']}{' (ends with its client)' if each['session'] else ''}" for each in server["workers"]]
    spent = view.get("spent", {})
    output.facts([
        ("version", server["version"]),
        ("store", server["address"]),
        ("zone", view["timezone"]),
        ("workers", ", ".join(workers) or "none"),
        *((("executors", "; ".join(clusters)),) if (clusters := [*_executors(view)]) else ()),
        ("channels", _names(view.get("channels", []))),
        ("topics", ", ".join(view["topics"]) or "none is in use"),
        ("agents", _names(view.get("agents", []))),
        ("limits", ", ".join(limit_text(name, value) for name, value in view["limits"].items())),
        *((("usage", f"{_amount(spent['today'])} today; {_amount(spent['this_week'])} this week"),) if spent else ()),
        ("failed", f"{'at least ' if 'at_least' in failed else ''}{failed['count']} in the last day"),
    ])  # fmt: skip
    problems = [each for each in view["problems"] if each["status"] == "open"]
    for each in problems[:_MOST_PROBLEMS]:
        since = in_words(each["since"], view["timezone"])
        often = "" if each["count"] == 1 else f" {each['count']:,} times"
        output.warn([f"{each['headline']}{often}, since {since}: {each['text']}"])
    if problems:
        output.say(f"{plural(len(problems), 'problem')}; {program('attention', 'list')} shows what helps.")
    for each in view["warnings"]:
        output.warn([each["text"]])
    output.say(clean(view["when_off"]))


def _names(rows: list[dict[str, Any]]) -> str:
    return ", ".join(_described(each) for each in rows) or "none"


def _executors(view: dict[str, Any]) -> Iterator[str]:
    for row in view.get("executors", ()):
        workers = "" if row["workers"] is None else f", {plural(row['workers'], 'worker')}"
        oldest = "" if row["oldest"] is None else f", the oldest since {in_words(row['oldest'], view['timezone'])}"
        missing = f": {row['missing']}" if "missing" in row else ""
        yield f"{row['name']} ({row['type']}){workers}, {plural(row['out'], 'run')} out{oldest}{missing}"


def _described(row: dict[str, Any]) -> str:
    type_ = "" if row["type"] == row["name"] else f" ({row['type']})"
    missing = f": {row['missing']}" if row.get("missing") else ""
    return f"{row['name']}{type_}{missing}"


def _amount(used: dict[str, Any]) -> str:
    tokens, dollars = used["tokens"], used["dollars"]
    further = (tokens and plural(tokens, "token"), dollars and f"${dollars:g}")
    return ", ".join([plural(used["runs"], "agent run"), *filter(None, further)])
