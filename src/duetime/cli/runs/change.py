"""`duetime change`: pause, resume, cancel, delete, restore or shift many schedules of any kind at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from duetime.cli.runs.kind_option import Kind, known_kind
from duetime.engine.clock import Instant
from duetime.service.errors import FAILED, OK
from duetime.service.operations.change_many import CHANGES, ENDING, BulkChange, ChangeMany, change_many
from duetime.service.operations.declaration import read_time
from duetime.service.vocabulary import clock_local
from duetime.terminal import output
from duetime.terminal.completion import IDS, one_of
from duetime.terminal.context import Application, Db, Json, opened
from duetime.terminal.declarations import argument, option, single
from duetime.terminal.input import agreed, is_interactive
from duetime.terminal.output import clean, in_words, plural
from duetime.terminal.schedules.commands import Expected, Note, Tagged, Until, Yes
from duetime.terminal.schedules.display import short_of

commands = single()

_NAMED: Final = 5
"""Number of schedules that a question or an answer names."""

_CHANGE_EXAMPLES = """\
duetime change pause --kind job --until "monday 9am"
duetime change resume --tagged nightly
duetime change cancel j5 p7
duetime change delete --topic demo --dry-run
duetime change delete --status finished --older-than 1d
duetime change shift --kind notification --by 30m
"""


@commands.command(epilog=_CHANGE_EXAMPLES)
def change(
    action: Annotated[str, argument("ACTION", "pause, resume, cancel, delete, restore or shift.", **one_of(*CHANGES))],
    ids: Annotated[list[str] | None, argument("[ID]...", "Ids or names; alternatively, use a filter.", **IDS)] = None,
    kind: Kind = None,
    topic: Annotated[str | None, option("--topic TEXT", "Only with this topic, task or agent.")] = None,
    label: Annotated[str | None, option("--label TEXT", "Only with this label or name.")] = None,
    tagged: Tagged = None,
    status: Annotated[
        str | None, option("--status STATUS", "Only with this status; finished: will not fire again.")
    ] = None,
    older_than: Annotated[
        str | None, option("--older-than DURATION", "Only without a run or change for this long.")
    ] = None,
    everything: Annotated[bool, option("--all", "All schedules that may still fire.")] = False,
    by: Annotated[str | None, option("--by DURATION", "For shift: how much later, such as 30m, or -30m.")] = None,
    until: Until = None,
    note: Note = None,
    dry_run: Annotated[bool, option("--dry-run", "Show what matches without changing it.")] = False,
    expected: Expected = None,
    yes: Yes = False,
    db: Db = None,
    json_: Json = False,
) -> int:
    """Pause, resume, cancel, delete, restore or shift many schedules: those with these ids, or all that match a filter.
    To cancel or delete ends them, so that it is confirmed first: cancelled ones stay in lists, deleted ones do not.
    `restore` takes back either."""
    with opened(db) as app:
        call, ends = app.call, read_time(app.call, until, "until")
        request = ChangeMany(
            action=action, ids=ids or (), kind=known_kind(kind), topic=topic, label=label, tagged=tagged,
            status=status, older_than=older_than, shift=by, everything=everything, until=ends, note=note,
            dry_run=dry_run, expected_count=expected, is_confirmed=yes,
        )  # fmt: skip
        if action in ENDING and expected is None and not (yes or dry_run or json_) and is_interactive():
            matched = change_many(call, replace(request, dry_run=True)).value.matched
            if not _agreed(app, action, matched):
                return OK
            request = replace(request, expected_count=len(matched))
        changed = change_many(call, request).value
        text = "" if json_ else _text(app, action, changed, until=ends)
    output.print_result(json_, changed.facts(), text)
    return FAILED if changed.failed else OK


def _agreed(app: Application, action: str, schedules: Sequence[dict[str, Any]]) -> bool:
    """Ask a person whether to change these schedules, and name some of them."""
    if not schedules:
        return True
    output.say("\n".join(_row(app, each) for each in schedules[:_NAMED]))
    if len(schedules) > _NAMED:
        output.say(f"and {len(schedules) - _NAMED:,} more")
    return agreed(f"{action.capitalize()} {plural(len(schedules), 'schedule')}?")


def _row(app: Application, row: dict[str, Any]) -> str:
    owner = f" (owner {clean(row['owner'])})" if "owner" in row else ""
    effects = {"followers": "{}", "declared": "{}", "falls_into_pause": "{}", "moves_to": "moves to {}", "error": "{}"}
    effect = "".join(f": {text.format(row[name])}" for name, text in effects.items() if name in row)
    return f"{short_of(app, row['id'])}  {clean(str(row.get('name', '')))}{owner}{in_words(effect, app.call.zone)}"


def _text(app: Application, action: str, done: BulkChange, *, until: Instant | None) -> str:
    verb = "would be" if done.dry_run else "was" if done.changed == 1 else "were"
    number = len(done.matched) if done.dry_run else done.changed
    others = [each for each in done.matched if "owner" in each]
    named = done.matched if done.dry_run else done.matched[:_NAMED] if action == "pause" else others
    rows = [_row(app, each) for each in named]
    end = "" if until is None else f" until {clock_local(until, app.call.zone)}"
    rows.append(f"{plural(number, 'schedule')} {verb} {CHANGES[action]}{end}.")
    rows += [f"{short_of(app, each['id'])}: {clean(str(each['error']))}" for each in done.failed]
    return "\n".join(rows)
