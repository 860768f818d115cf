"""`duetime prompt`: commands to schedule prompts for agents, and to take due ones from the inbox in scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from duetime.engine.clock import MINUTE
from duetime.engine.encoding import encode, json_object, shorten_error
from duetime.engine.errors import InvalidInput
from duetime.engine.model import Definition
from duetime.engine.outcome import Completed, Failed
from duetime.engine.policy.checkout import hold_of
from duetime.engine.result import Err
from duetime.engine.scheduler import LEASE
from duetime.engine.validation import NewSchedule
from duetime.kinds.prompts.allowance import EXAMPLE
from duetime.kinds.prompts.kind import prompt_of
from duetime.service.errors import NOT_FOUND, Refused, unwrap
from duetime.service.presenters import instant_view
from duetime.service.services import OPERATOR
from duetime.service.when import duration
from duetime.settings.sections import INBOX
from duetime.terminal import output
from duetime.terminal.context import Db, Json, again, given_text, opened
from duetime.terminal.errors import name_fields
from duetime.terminal.output import clean, coming
from duetime.terminal.schedules.change import add_change_commands, add_schedule, edit_schedule
from duetime.terminal.schedules.kind_view import Facts, KindView, Payload, filled, headline, one_line
from duetime.terminal.schedules.options import EditOptions, Key, Name, NamedFields, ReportedOptions, TriggerOptions
from duetime.terminal.schedules.read import Id, add_read_commands
from duetime.terminal.typer_ext import PlainCommand, argument, bundled, group, option


def _cells(definition: Definition, payload: Payload) -> Sequence[object]:
    woken = "reminder" if payload.get("remind") else definition.subject
    return (one_line(payload.get("prompt", definition.name)), woken)


def _facts(definition: Definition, payload: Payload) -> Facts:
    inbox = "nobody: it waits in the inbox until it is taken"
    agent = inbox if definition.subject == INBOX else definition.subject
    woken = "a person, by a notification" if payload.get("remind") else agent
    limits = filled(payload, "max_runs_per_day", "max_tokens_per_day", "max_dollars_per_day")
    return [
        ("text", output.block(payload.get("prompt", ""))),
        ("wakes", woken),
        *((name.removeprefix("max_").replace("_", " "), f"at most {value}") for name, value in limits),
    ]


PROMPT = KindView("prompt", "prompt", "prompts", ("PROMPT", "AGENT"), _cells, _facts)
name_fields({"prompt": "the text"})
commands = group("Prompts: instructions for an agent, scheduled.")


@dataclass(frozen=True, slots=True)
class PromptPolicy(ReportedOptions):
    untaken: Annotated[
        str | None,
        option("--untaken HOW", "If no agent took it by the next time: replace (the default), keep or expire."),
    ] = None
    expire_after: Annotated[str | None, option("--expire-after SPAN", "With --untaken expire: 2h.")] = None


@dataclass(frozen=True, slots=True)
class AgentOptions(NamedFields):
    """Options: which agent a prompt wakes, how often, and at what cost."""

    agent: Annotated[str | None, option("--agent NAME", "An agent of the settings, or inbox.")] = None
    remind: Annotated[
        bool, option("--remind", "Wake no agent: send the text to a person, to --deliver-to or `reminders`.")
    ] = False
    allow: Annotated[str | None, option("--allow JSON", f"Narrow what its agent may use, such as {EXAMPLE}.")] = None
    max_runs_per_day: Annotated[
        int | None, option("--max-runs-per-day N", "What is beyond it waits for the next day.")
    ] = None
    max_tokens_per_day: Annotated[int | None, option("--max-tokens-per-day N", "The same, for the tokens it used.")] = (
        None
    )
    max_dollars_per_day: Annotated[float | None, option("--max-dollars-per-day N", "The same, for what they cost.")] = (
        None
    )


def _payload(agent: AgentOptions) -> dict[str, Any]:
    given = agent.given()
    if "allow" in given:
        given["allow"] = json_object(given["allow"]) or given["allow"]  # what is no object is refused with the rest
    return given


@commands.command(cls=PlainCommand)
@bundled
def add(
    text: Annotated[str, argument("TEXT", "What the agent is to do; - reads standard input.")],
    trigger: TriggerOptions,
    agent: AgentOptions,
    policy: PromptPolicy,
    name: Name = None,
    key: Key = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Schedule a prompt. It takes exactly one of --at, --delay, --every, --cron, --rrule and --when."""
    prompt, when = given_text(text), trigger.parsed()
    payload, stated = {"prompt": prompt, **_payload(agent)}, policy.given()
    new = NewSchedule("prompt", name or headline(prompt), when.type, when.config, payload, stated, when.timezone, key)
    with opened(db, making=True) as app:
        add_schedule(app, new, when, json_)


@commands.command(cls=PlainCommand)
@bundled
def edit(
    id: Id,
    trigger: EditOptions,
    agent: AgentOptions,
    policy: PromptPolicy,
    text: Annotated[str | None, option("--text TEXT", "Other instructions.")] = None,
    name: Name = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Change a prompt. What is not given stays as it is. One that is running cannot be changed, but one that is due and
    waits because its agent is not there can be given another --agent."""
    given = agent.given() | ({} if text is None else {"prompt": given_text(text)})
    renamed = headline(given["prompt"]) if name is None and text is not None else name
    stated = policy.given()
    with opened(db) as app:
        edit_schedule(app, PROMPT, id, trigger, json_, name=renamed, payload=given, policy=stated)


@commands.command(cls=PlainCommand)
def take(
    agent: Annotated[str | None, option("--agent NAME", "Only prompts for this agent.")] = None,
    lease: Annotated[
        str, option("--for SPAN", "How long it stays yours; then another may take it.")
    ] = f"{LEASE // MINUTE}m",
    db: Db = None,
    json_: Json = False,
) -> None:
    """Take the prompt that is due the longest. Its text is printed; exit code 3 when nothing is due."""
    with opened(db) as app:
        held = unwrap(app.scheduler.take(OPERATOR, "prompt", agent, duration(lease, "--for")))
        zone, now = app.scheduler.zone, app.clock.now()
        number = "RUN" if held is None else str(held.run.id)
        how = again(app, "prompt", "finish", number, "--result", "...")
    if held is None:
        if json_:
            output.print_json({"run_id": None})
        else:
            output.note("Nothing is due.")
        raise typer.Exit(NOT_FOUND)
    run, text = held.run, prompt_of(held.definition)
    if json_:
        view = {
            "id": held.definition.public_id,
            "run_id": run.id,
            "hold": hold_of(run),
            "prompt": text,
            "due": instant_view(run.due, zone),
            "expires_at": instant_view(run.expires, zone),
        }
        output.print_json(view)
    else:
        print(output.block(text))
        output.note(f"run {run.id}, yours until {coming(run.expires, zone, now)}; when it is done: {how}")


@commands.command(cls=PlainCommand)
def finish(
    run: Annotated[int, argument("RUN", "The number that `take` gave.")],
    result: Annotated[str | None, option("--result TEXT", "What came of it; - reads standard input.")] = None,
    error: Annotated[str | None, option("--error TEXT", "What kept you from it; - reads standard input.")] = None,
    hold: Annotated[
        str | None, option("--hold HOLD", "As `take --json` gave it: refused once somebody else has taken it anew.")
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Say what became of a prompt that was taken: exactly one of --result and --error."""
    if result is not None and error is None:
        outcome: Completed | Failed = Completed(encode(given_text(result)))
    elif error is not None and result is None:
        outcome = Failed(shorten_error(given_text(error)) or "it failed without a word")
    else:
        raise InvalidInput("give exactly one of --result and --error")
    with opened(db) as app:
        ended = app.scheduler.finish(OPERATOR, run, outcome, "prompt", hold=hold)
        if isinstance(ended, Err):
            raise Refused(Err(ended.code, f"run {run} is not yours to finish: it expired, or somebody else has it"))
        prompt = app.scheduler.schedule_of(OPERATOR, ended.value)
    name = ended.value.name if prompt is None else prompt.definition.public_id
    if json_:
        output.print_json({"id": name, "run_id": run, "status": ended.value.status})
    else:
        print(f"Finished prompt {clean(name)}: run {run} is {ended.value.status}.")


add_read_commands(commands, PROMPT)
add_change_commands(commands, PROMPT)
