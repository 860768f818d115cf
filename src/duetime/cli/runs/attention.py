"""`duetime attention`: what needs attention, until it is over or somebody resolves it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from duetime.engine.clock import instant_of
from duetime.service.errors import REFUSED
from duetime.service.operations.attention import ListAttention, MarkRuns, attention, mark_runs
from duetime.service.operations.inbox import Mark
from duetime.terminal import output
from duetime.terminal.completion import RUNS
from duetime.terminal.context import Db, Json, Limit, again, opened
from duetime.terminal.declarations import Exit, argument, group, option
from duetime.terminal.output import plural, relative
from duetime.terminal.schedules.commands import Tagged

Keys = Annotated[list[str], argument("KEY...", "Keys, as `attention list` shows them, or numbers of runs.", **RUNS)]
Resolved = Annotated[bool, option("--resolved", "What was resolved and is not over.")]

commands = group("What needs attention: incidents, dead letters, missed runs, and what waits for somebody.")


@commands.command("list", reads=True)
def list_(
    resolved: Resolved = False, tagged: Tagged = None, limit: Limit = 50, db: Db = None, json_: Json = False
) -> None:
    """List what needs attention, the latest first. It leaves the list when it goes well again, or is resolved."""
    with opened(db) as app:
        items, cut = attention(app.call, ListAttention(resolved=resolved, tagged=tagged, limit=limit)).value
        now, verb = app.call.now, "reopen" if resolved else "resolve"
        first = next((each["key"] for each in items if each["key"]), None)
        advice = "" if first is None else f" {verb.capitalize()} one: {again(app, 'attention', verb, first)}"
    if json_:
        output.print_json({"attention": items, "more": bool(cut)})
        return
    if not items:
        print("Nothing was resolved that is not over." if resolved else "Nothing needs attention.")
        return
    rows = []
    for each in items:
        since = relative(instant_of(datetime.fromisoformat(each["since"])), now)
        id = each["short_id"]
        rows.append([each["key"] or "-", since, each["count"], id, each["headline"], each["text"]])
    columns = ["KEY", "SINCE", "TIMES", "ID", "WHAT", "ERROR"]
    output.table(columns, rows, whole=2, fold=True, spare={"TIMES": 20, "ID": 10})
    more = ", and there is more" if cut else ""
    if cut and len(items) < limit and cut <= {"failed", "missed"}:  # these rows may stand for what was not read
        more = "; of many runs that failed or were missed, only the latest were looked at"
    output.say(f"{plural(len(items), 'row')}{more}.{advice}")


_EXAMPLES = "duetime attention resolve incident-3 91"


@commands.command(epilog=_EXAMPLES)
def resolve(keys: Keys, db: Db = None, json_: Json = False) -> None:
    """Take off the list what is dealt with. Nothing reminds of an incident until it is over; the history stays."""
    _mark("resolve", keys, db, json_)


@commands.command()
def reopen(keys: Keys, db: Db = None, json_: Json = False) -> None:
    """Put what was resolved back on the list; `attention list --resolved` shows it."""
    _mark("reopen", keys, db, json_)


def _mark(mark: Mark, keys: list[str], db: str | None, json_: bool) -> None:
    with opened(db) as app:
        marked, _, notes = mark_runs(app.call, MarkRuns(ids=keys, mark=mark))
    done = "resolved" if mark == "resolve" else "reopened"
    if json_:
        output.print_json({"marked": marked, "notes": list(notes)})
    else:
        print(f"{done.capitalize()} {plural(marked, 'row')}." if marked else f"Nothing was {done}.")
        output.warn([f"not {done}: {note}" for note in notes])
    if notes:
        raise Exit(REFUSED)
