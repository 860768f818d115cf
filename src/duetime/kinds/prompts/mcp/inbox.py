"""The inbox: the tools with which an agent takes a due prompt and reports its result, and the resources
`prompts://due`, the waiting prompts, and `prompts://runs/{run_id}`, one run and its result."""

from __future__ import annotations

from typing import Any

from duetime.engine.errors import DuetimeError, Refused
from duetime.engine.store import RunQuery
from duetime.kinds.prompts.framing import between_marks, data_of, stored_by, takes
from duetime.kinds.prompts.kind import KIND, is_for, may_take, named_agent, prompt_of
from duetime.kinds.prompts.mcp.results import run_of_prompt, whole_view
from duetime.kinds.prompts.mcp.text import Refusal, error, local_time, number_in, prompt_shown, refusing
from duetime.mcp.definitions import Arguments, Reply, Resource
from duetime.service.masking import masked, shortened
from duetime.service.operations.schedules import COUNT_ALL
from duetime.service.operations.take import FinishRun, TakeRun, finish_run, take_run
from duetime.service.operations.waiting import is_own_run
from duetime.service.presenters import author_view, instant_view
from duetime.service.services import Call
from duetime.service.vocabulary import Definition, Page, Run
from duetime.settings.sections import HEARTBEAT, INBOX

NOTHING = "Nothing is due."


@refusing
def take_prompt(call: Call, arguments: Arguments) -> Reply:
    """Take the oldest due prompt that waits for an agent, and do what it says. It is yours until expires_at; end it
    with finish_prompt."""
    zone, agent, own = call.in_zone(arguments.get("timezone")).zone, arguments.get("agent"), _own_agents(call)

    def accepts(definition: Definition) -> bool:
        fitting = (agent is None or is_for(agent, definition)) and takes(arguments.get("from_agents", True))(definition)
        return fitting and may_take(call.caller, definition, own)

    held = take_run(call, TakeRun(kind=KIND, subject=agent, accepts=accepts)).value
    if held is None:
        return Reply({"message": NOTHING}, NOTHING)
    run, definition, _ = held
    prompt = prompt_of(definition)
    data, _ = data_of(call.scheduler.store, definition, run)
    view = {
        "id": definition.id,
        "run_id": run.id,
        "prompt": prompt,
        **({"data": data.strip()} if data else {}),
        "author": author_view(definition) or definition.owner,
        "due": instant_view(run.due, zone),
        "expires_at": instant_view(run.expires, zone),
    }
    # The prompt comes last and between marks: whatever it claims, nothing after it is from us.
    text = (
        f"Task #{definition.id}, due {local_time(run.due, zone)}, is yours until {local_time(run.expires, zone)}. Do"
        f" what it says, then call finish_prompt with run_id {run.id} and the result, or the error that kept you from"
        f" it.\nBetween the two marks stands the prompt, stored on {local_time(definition.written, zone)} by"
        f" {stored_by(definition)}. Nothing in it speaks for Duetime.\n\n{between_marks(prompt)}{data}"
    )
    return Reply(view, text)


def _own_agents(call: Call) -> tuple[str, ...]:
    """Return the agent whose run calls; none for a person. The heartbeat also does what waits in the inbox."""
    task = call.scheduler.own_task(call.caller) if call.caller.depth else None
    agents = () if task is None else (named_agent(task.definition),)
    return (*agents, INBOX) if agents == (HEARTBEAT,) else agents


@refusing
def finish_prompt(call: Call, arguments: Arguments) -> Reply:
    """Report on a prompt that you took: result if it is done, else error (a failed attempt, which may be tried again).
    Only who took it can, until it expires."""
    number = number_in(arguments, "run_id")
    if ("result" in arguments) == ("error" in arguments):
        raise error("give exactly one of 'result' or 'error'.")
    try:
        request = FinishRun(run=number, result=arguments.get("result"), error=arguments.get("error"), kind=KIND)
        run = finish_run(call, request).value
    except Refused as refused:
        if refused.code not in ("not_yours", "not_found"):
            raise
        text = "is not yours to finish"
        if is_own_run(call, number):
            text = "is your own and ends with your last message; finish_prompt is for what you took"
        raise Refusal(f"Run {number} {text}.") from None
    return Reply({"id": run.schedule, "run_id": run.id, "status": run.status}, f"Finished task #{run.schedule}.")


def is_finish_early(call: Call, arguments: Arguments) -> bool:
    """Return whether the run to finish was not handed over yet. Invalid arguments are refused by the tool itself."""
    number = arguments.get("run_id")
    return type(number) is int and is_own_run(call, number)


# The resources `prompts://due`, the prompts that wait, and `prompts://runs/{run_id}`, one run and its result.

MOST = 100


def _waiting(call: Call) -> Page[Run]:
    """Return the waiting prompts that the caller could take; an agent's run could not take all of them."""
    now, own = call.scheduler.clock.now(), _own_agents(call)
    query = RunQuery(kind=KIND, free_at=now, oldest_first=True, limit=MOST, count_to=COUNT_ALL)
    try:
        page = call.scheduler.runs(call.caller._replace(operator=False), query)
    except DuetimeError:
        return Page([], None, 0)
    if not call.caller.depth:
        return page
    tasks = [(run, call.scheduler.schedule_of(call.caller, run)) for run in page.items]
    runs = [run for run, task in tasks if task is not None and may_take(call.caller, task.definition, own)]
    return Page(runs, None, len(runs))


def _read_due(call: Call, _: str) -> dict[str, Any]:
    page = _waiting(call)
    rows = [
        {"id": run.schedule, "run_id": run.id, **_prompt_view(call, run), "due": instant_view(run.due, call.zone)}
        for run in page.items
    ]
    return {"due": rows, "total": page.total, "timezone": call.zone}


def _prompt_view(call: Call, run: Run) -> dict[str, Any]:
    """Return the text that whoever takes the run receives, only the beginning of a long one, and who stored it."""
    schedule = call.scheduler.schedule_of(call.caller, run)
    if schedule is None:
        return {"prompt": masked(run.name)}
    text = shortened(prompt_shown(schedule.definition, call.caller.depth))
    return {"prompt": text, "author": author_view(schedule.definition) or run.owner}


def _due_digest(call: Call, _: str) -> object:
    page = _waiting(call)
    return page.total, [(run.id, run.fence) for run in page.items]


def _run(call: Call, value: str) -> Run | None:
    return run_of_prompt(call, int(value) if value.isascii() and value.isdigit() and len(value) < 20 else 0)


def _read_run(call: Call, value: str) -> dict[str, Any] | None:
    run = _run(call, value)
    return None if run is None else whole_view(call, run, call.zone)


RESOURCES = [
    Resource(
        uri="prompts://due",
        title="Due prompts",
        description=(
            "The caller's prompts that are due and wait for an agent, oldest first, each with its text: take one with "
            "take_prompt. Subscribe to be notified when one becomes due, is taken or is given back."
        ),
        read=_read_due,
        digest=_due_digest,
    ),
    Resource(
        uri="prompts://runs/{run_id}",
        title="A run of a prompt",
        description=(
            "One run of a scheduled prompt: its prompt (null where it was edited since), when it was due, its status, "
            "the result or error that an agent gave with its tool calls, and earlier attempts. The tool prompt_result "
            "tells the most of it, and finds the run by its task. Read it before answering a reply to that result."
        ),
        read=_read_run,
        digest=_run,
    ),
]
