"""The inbox tools: an agent takes a due prompt, does it, and reports the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from duetime.engine.encoding import encode, shorten_error
from duetime.engine.model import RunStatus, run_holder
from duetime.engine.outcome import Completed, Failed
from duetime.engine.result import Err
from duetime.kinds.prompts.mcp.text import (
    KIND,
    Refusal,
    accepted,
    error,
    number_in,
    payload_of,
    refusing,
    shown,
    zone_in,
)
from duetime.mcp.tool import Arguments, Reply
from duetime.service.presenters import instant_view
from duetime.service.services import Call

NOTHING = "Nothing is due."
_LOOKS, _LOOK = 50, 0.1
"""How many times, and after how many seconds each, to check again whether a run was handed over."""


@refusing
def take_prompt(call: Call, given: Arguments) -> Reply:
    zone = zone_in(call, given)
    held = accepted(call.scheduler.take(call.caller, KIND, given.get("agent")))
    if held is None:
        return Reply({"message": NOTHING}, NOTHING)
    run, definition, _ = held
    prompt = str(payload_of(definition).get("prompt", ""))
    view = {
        "id": definition.id,
        "run_id": run.id,
        "prompt": prompt,
        "due": instant_view(run.due, zone),
        "expires_at": instant_view(run.expires, zone),
    }
    # The prompt comes last and is declared as stored text: whatever it claims, nothing after it is from us.
    words = (
        f"Task #{definition.id}, due {shown(run.due, zone)}, is yours until {shown(run.expires, zone)}. Do what it"
        f" says, then call finish_prompt with run_id {run.id} and the result, or the error that kept you from it."
        f"\nThe prompt, as its owner stored it on {shown(definition.written, zone)}:\n\n{prompt}"
    )
    return Reply(view, words)


@refusing
def finish_prompt(call: Call, given: Arguments) -> Reply:
    number = number_in(given, "run_id")
    if ("result" in given) == ("error" in given):
        raise error("give exactly one of 'result' or 'error'.")
    outcome: Completed | Failed
    if "error" in given:
        outcome = Failed(shorten_error(given["error"]) or "it failed without a word")
    else:
        outcome = Completed(encode(given["result"]))
    ended = call.scheduler.finish(call.caller, number, outcome, KIND)
    if isinstance(ended, Err) and ended.code in ("not_yours", "not_found"):
        if is_under_way(call, number):
            words = "is your own and ends with your last message; finish_prompt is for what you took"
            raise Refusal(f"Run {number} {words}.")
        raise Refusal(f"Run {number} is not yours to finish.")
    run = accepted(ended)
    return Reply({"id": run.schedule, "run_id": run.id, "status": run.status}, f"Finished task #{run.schedule}.")


async def await_handover(is_under_way: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a run is handed over: an agent that promised a later result may have it before the promise is stored.
    Call this before finishing: the handover may come between a refusal and a check after it. No thread is blocked."""
    for _ in range(_LOOKS):
        if not await is_under_way():
            break
        await anyio.sleep(_LOOK)


def is_finish_early(call: Call, given: Arguments) -> bool:
    """Return whether the run to finish was not handed over yet. Invalid arguments are refused by the tool itself."""
    number = given.get("run_id")
    return type(number) is int and is_under_way(call, number)


def is_under_way(call: Call, number: int) -> bool:
    """Return whether this is the run that the caller's own token is for, and a worker still has it."""
    run = call.scheduler.run(call.caller, number)
    if run is None or run.status != RunStatus.RUNNING:
        return False
    return call.caller.holder == run_holder(run.id, run.fence)
