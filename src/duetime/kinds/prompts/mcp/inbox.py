"""The inbox tools: an agent takes a due prompt, does it, and reports the result."""

from __future__ import annotations

from duetime.engine.encoding import encode, shorten_error
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
)
from duetime.mcp.definitions import Arguments, Reply
from duetime.mcp.schemas import zone_of
from duetime.service.handover import is_own_run
from duetime.service.presenters import instant_view
from duetime.service.services import Call

NOTHING = "Nothing is due."


@refusing
def take_prompt(call: Call, given: Arguments) -> Reply:
    zone = zone_of(call, given)
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
    text = (
        f"Task #{definition.id}, due {shown(run.due, zone)}, is yours until {shown(run.expires, zone)}. Do what it"
        f" says, then call finish_prompt with run_id {run.id} and the result, or the error that kept you from it."
        f"\nThe prompt, as its owner stored it on {shown(definition.written, zone)}:\n\n{prompt}"
    )
    return Reply(view, text)


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
        if is_own_run(call, number):
            text = "is your own and ends with your last message; finish_prompt is for what you took"
            raise Refusal(f"Run {number} {text}.")
        raise Refusal(f"Run {number} is not yours to finish.")
    run = accepted(ended)
    return Reply({"id": run.schedule, "run_id": run.id, "status": run.status}, f"Finished task #{run.schedule}.")


def is_finish_early(call: Call, given: Arguments) -> bool:
    """Return whether the run to finish was not handed over yet. Invalid arguments are refused by the tool itself."""
    number = given.get("run_id")
    return type(number) is int and is_own_run(call, number)
