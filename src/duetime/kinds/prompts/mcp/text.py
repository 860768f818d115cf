"""Text of the prompt tools, whose answers and refusals are text for an agent to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from duetime.engine.clock import NEVER, Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.triggers.build import readable
from duetime.kinds.prompts.framing import is_from_agents
from duetime.kinds.prompts.kind import CUT, KIND, deliver_to, harmless, headline, payload_of, prompt_of
from duetime.kinds.prompts.payload import LIMITS
from duetime.mcp.definitions import Arguments, Reply, Schema, id_or_name
from duetime.mcp.schemas import lookup_fields
from duetime.service.errors import STORE_ERRORS
from duetime.service.lookup import find_schedule
from duetime.service.masking import masked
from duetime.service.pauses import fires_at
from duetime.service.presenters import author_view, instant_view, options_view, source_view
from duetime.service.services import Call
from duetime.service.vocabulary import Definition, Schedule, describe, format_local, status_of

TASK_ID = id_or_name("Its number (12) or name.")
TIME: Schema = {"type": "string", "description": "ISO 8601 with offset."}
KEPT = 1000
"""Characters of a prompt in a list's structured content: ten thousand whole prompts would be gigabytes."""


class Refusal(Exception):
    """A refusal, which is returned as a normal result with exactly this text, and with further fields as data."""

    def __init__(self, text: str, **fields: Any) -> None:
        super().__init__(text)
        self.fields = fields


Answer = Callable[[Call, Arguments], Reply]


def refusing(answer: Answer) -> Answer:
    """Return a refusal, and an error such as an unknown time zone, as a normal result."""

    @wraps(answer)
    def answered(call: Call, arguments: Arguments) -> Reply:
        try:
            return answer(call, arguments)
        except (Refusal, DuetimeError) as problem:
            refusal = problem if isinstance(problem, Refusal) else refusal_of(problem)
            return Reply({"error": str(refusal), **refusal.fields}, str(refusal))

    return answered


def error(message: str) -> Refusal:
    return Refusal(f"Error: {harmless(message)}")


def refusal_of(err: DuetimeError, **arguments: str) -> Refusal:
    """Return an error as a refusal. `arguments` maps names of fields to those of the tool, where they differ."""
    if err.code in STORE_ERRORS:  # the original message may name a path
        return error("the store cannot be reached right now; try again in a moment.")
    field, _, rest = err.message.partition(": ")
    return error(f"{arguments[field]}: {rest}" if rest and field in arguments else err.message)


def number_in(arguments: Arguments, name: str) -> int:
    """Return an integer argument. Any may be given, but one that is too long to be printed is not an id."""
    number: int = arguments[name]
    if abs(number) >= 10**30:
        raise error(f"{name} is too large a number for an id.")
    return number


def task_named(arguments: Arguments) -> str:
    """Return how a text refers to the task in an argument: `#12`, or its name."""
    if isinstance(arguments["id"], int):
        return f"#{number_in(arguments, 'id')}"
    named = arguments["id"].strip().removeprefix("#")
    return f"#{named}" if named.isdigit() else f'"{harmless(named[:CUT])}"'


def found_task(call: Call, arguments: Arguments, refusal: str, tool: str | None, *, deleted: bool = False) -> Schedule:
    """Return the prompt that the argument `id` names, or raise the refusal, which suggests `tool` for an id of another
    kind. Without `tool`, it suggests the tool that cancels that kind."""
    try:
        return find_schedule(call, arguments["id"], KIND, deleted=deleted)
    except DuetimeError as error:
        if error.code == "not_found":
            raise Refusal(refusal, **lookup_fields(error, tool)) from None
        if error.code == "ambiguous":
            raise Refusal(f"Error: {harmless(error.message)}.", **lookup_fields(error, tool)) from None
        raise


def fire_time(schedule: Schedule) -> Instant | None:
    """Return when a prompt fires next, which is after its pause, or None if it is paused without an end; or, once
    nothing is to come, when it last fired or would have."""
    progress = schedule.progress
    return progress.through if progress.next is None else fires_at(schedule)


def prompt_shown(definition: Definition, depth: int) -> str:
    """Return the prompt. An agent's run (`depth` above 0) sees no credentials in it."""
    prompt = prompt_of(definition)
    return str(masked(prompt)) if depth else prompt


def repeats(definition: Definition) -> str | None:
    """Describe the rule of a recurring prompt; None for a single time and for a rule that can no longer be read."""
    trigger = readable(definition.trigger)
    return None if trigger is None or trigger.type == "once" else describe(trigger)


def task_view(schedule: Schedule, zone: str, depth: int, detail: str | None = None) -> dict[str, Any]:
    definition, progress = schedule
    prompt = prompt_shown(definition, depth)
    view: dict[str, Any] = {
        "id": definition.id,
        "fire_at": instant_view(fire_time(schedule), zone),
        "status": status_of(progress),
        "prompt": prompt if len(prompt) <= KEPT else f"{prompt[:KEPT]}...",
        **({"remind": True} if payload_of(definition).get("remind") else {"agent": definition.subject}),
    }
    extras = {
        "author": author_view(definition),
        "name": None if prompt.startswith(definition.name) else masked(definition.name),
        "state_detail": detail,
        "repeats": repeats(definition),
        "deliver_to": deliver_to(definition),
        "last_run": instant_view(progress.last_run, zone),
        "last_status": progress.last_status,
        "last_error": masked(progress.last_error),
        "held": masked(progress.note),
        "paused_until": instant_view(definition.resume_at, zone),
        "allow": payload_of(definition).get("allow"),
        "options": _options(definition, zone) or None,
        "source": source_view(definition.key),
    }
    return view | {name: value for name, value in extras.items() if value is not None}


def _options(definition: Definition, zone: str) -> dict[str, Any]:
    """Return the options that were set, and what an agent may use at most in a day, if that was limited."""
    payload = payload_of(definition)
    limits = {name: payload[name] for name in LIMITS if payload.get(name) is not None}
    return options_view(definition.policy, definition.trigger, zone) | limits


def local_time(instant: Instant | None, zone: str) -> str:
    return "no time" if instant is None else format_local(instant, zone)


def table_row(schedule: Schedule, zone: str, depth: int) -> str:
    definition, progress = schedule
    prompt, fires = headline(prompt_shown(definition, depth)), local_time(fire_time(schedule), zone)
    if progress.next == NEVER:
        fires = "on an event"
    author = f"  (stored by {author_view(definition)})" if is_from_agents(definition) else ""
    paused = f"  (paused until {local_time(definition.resume_at, zone)})" if definition.resume_at is not None else ""
    return f"#{definition.id}  {fires}  [{status_of(progress)}]  {prompt}{author}{paused}"


def lines(first: str, notes: Sequence[str | None], warnings: Sequence[str] = ()) -> str:
    """Return the first sentence, then what had to be assumed, then what might prevent it from firing."""
    further = [f"Note: {note.rstrip('.')}." for note in notes if note]
    return "\n".join([first, *further, *(f"Warning: {warning}" for warning in warnings)])
