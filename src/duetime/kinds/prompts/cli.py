"""`duetime prompt`: commands to schedule prompts for agents, and to take due ones from the inbox in scripts."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from duetime.engine.clock import MINUTE
from duetime.engine.errors import DuetimeError, InvalidInput, NotFound, Refused
from duetime.kinds.prompts import SPEC
from duetime.kinds.prompts.framing import data_of, stored_by, takes
from duetime.kinds.prompts.kind import prompt_of
from duetime.kinds.prompts.payload import PromptPayload
from duetime.service.errors import NOT_FOUND, refuse
from duetime.service.operations.history import ShowRun, schedule_of, show_run
from duetime.service.operations.take import LEASE, FinishRun, TakeRun, finish_run, hold_of, take_run
from duetime.service.presenters import author_view, instant_view
from duetime.service.vocabulary import LIVE
from duetime.service.when import duration
from duetime.terminal import output
from duetime.terminal.completion import from_store
from duetime.terminal.context import Application, Db, Json, again, given_text, opened
from duetime.terminal.declarations import Exit, argument, option
from duetime.terminal.errors import name_fields
from duetime.terminal.output import clean, coming
from duetime.terminal.schedules.standard import payload_options, standard_commands


def _agents(app: Application, *_: object) -> list[tuple[str, str]]:
    from duetime.kinds.prompts.build import roster_of

    return [(name, each.type) for name, each in roster_of(app.settings).agents.items()]


_AGENTS = from_store(_agents)
_EXAMPLES = """\
duetime prompt add "Summarise my calendar" --when "every weekday at 8:30"
duetime prompt list
"""
_ADD_EXAMPLES = """\
duetime prompt add "Summarise my calendar" --when "every weekday at 8:30" --deliver-to reminders
duetime prompt add "Check the build" --every 2h --agent claude --max-runs-per-day 6
duetime prompt add - --at "tomorrow 9am" < instructions.txt
"""
name_fields({"prompt": "the text"})
commands = standard_commands(
    SPEC,
    payload_options(PromptPayload, agent=_AGENTS),
    summary="Prompts wake an agent with instructions on a schedule.",
    edit_help="Change a prompt. Everything that is not given stays the same. One that is running cannot be changed, "
    "but one that waits for its agent can be given another --agent.",
    examples=(_EXAMPLES.rstrip(), _ADD_EXAMPLES),
)
_TAKE_EXAMPLES = """\
duetime prompt take --agent inbox --for 30m
"""


@commands.command(epilog=_TAKE_EXAMPLES)
def take(
    agent: Annotated[str | None, option("--agent NAME", "Only prompts for this agent.", **_AGENTS)] = None,
    lease: Annotated[str, option("--for SPAN", "How long nobody else can take it.")] = f"{LEASE // MINUTE}m",
    from_people: Annotated[bool, option("--from-people", "None that an agent's run stored.")] = False,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Take the prompt that has been due the longest, and print its text. The exit code is 3 if nothing is due."""
    with opened(db) as app:
        accepts = takes(from_agents=not from_people)
        request = TakeRun(kind="prompt", subject=agent, lease=duration(lease, "--for"), accepts=accepts)
        held, zone, now = take_run(app.call, request).value, app.call.zone, app.call.now
        data = "" if held is None else data_of(app.call.scheduler.store, held.definition, held.run)[0]
        number = "RUN" if held is None else str(held.run.id)
        how = again(app, "prompt", "finish", number, "--result", "...")
    if held is None:
        if json_:
            output.print_json({"run_id": None})
        else:
            output.note("Nothing is due.")
        raise Exit(NOT_FOUND)
    run, text = held.run, prompt_of(held.definition)
    if json_:
        view = {
            "id": held.definition.public_id,
            "run_id": run.id,
            "hold": hold_of(run),
            "prompt": text,
            "author": author_view(held.definition),
            "due": instant_view(run.due, zone),
            "expires_at": instant_view(run.expires, zone),
            **({"data": data.strip()} if data else {}),
        }
        output.print_json(view)
    else:
        print(output.block(text + data))
        output.note(f"run {run.id}, yours until {coming(run.expires, zone, now)}; when it is done: {how}")
        output.note(f"stored by {clean(stored_by(held.definition))}")


_FINISH_EXAMPLES = """\
duetime prompt finish 91 --result "Sent the summary"
duetime prompt finish 91 --error "The calendar cannot be reached"
"""


@commands.command(epilog=_FINISH_EXAMPLES)
def finish(
    run: Annotated[int, argument("RUN", "Number of the run, as `take` printed it.")],
    result: Annotated[str | None, option("--result TEXT", "Result; - reads standard input.")] = None,
    error: Annotated[str | None, option("--error TEXT", "Why it failed; - reads standard input.")] = None,
    hold: Annotated[
        str | None,
        option(
            "--hold HOLD", "The hold from `take --json`; finishing is refused once somebody else has taken the prompt."
        ),
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Report the outcome of a prompt that was taken. Give exactly one of --result and --error."""
    if (result is None) == (error is None):
        raise InvalidInput("give exactly one of --result and --error")
    done, failed = (None if text is None else given_text(text) for text in (result, error))
    request = FinishRun(run=run, result=done, error=failed, hold=hold, kind="prompt")
    with opened(db) as app:
        try:
            ended = finish_run(app.call, request).value
        except Refused as refusal:
            raise _cannot_finish(app, run, refusal) from None
        prompt = schedule_of(app.call, ended)
    if json_:
        id = ended.name if prompt is None else prompt.definition.public_id
        output.print_json({"id": id, "run_id": run, "status": ended.status})
    else:
        name = ended.name if prompt is None else prompt.definition.short_id
        print(f"Finished prompt {clean(name)}: run {run} is {ended.status}.")


def _cannot_finish(app: Application, number: int, refusal: Refused) -> DuetimeError:
    with suppress(NotFound):
        run = show_run(app.call._replace(kinds=("prompt",)), ShowRun(run=number)).value
        if run.status not in LIVE:
            return refuse("not_possible", f"run {number} is already {run.status}")
        return refuse(refusal.code, f"run {number} is not yours to finish: it expired, or somebody else has it")
    return refuse("not_found", f"there is no run {number} of a prompt; list them: {again(app, 'runs', 'list')}")
