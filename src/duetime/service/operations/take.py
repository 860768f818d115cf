"""Takes runs that wait for somebody, such as prompts for an agent, and finishes them with their results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

from duetime.engine.checkout import LEASE
from duetime.engine.encoding import encode, shorten_error
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.model import Definition, Run
from duetime.engine.outcome import Completed, Failed, Returned
from duetime.engine.policy.checkout import hold_of
from duetime.engine.policy.finish import HeldRun
from duetime.engine.value_class import dataclass
from duetime.service.operations.declaration import Answer, Field, OperationRequest
from duetime.service.services import Call

__all__ = ["LEASE", "hold_of"]  # for interfaces, whose users may give another lease, and name the hold of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeRun(OperationRequest):
    """The run of a kind that has been waiting the longest; nobody else gets it for the duration of the lease."""

    kind: str
    subject: Annotated[str | None, Field("Only what is for this agent.", max_length=200)] = None
    lease: int = LEASE
    accepts: Callable[[Definition], bool] = lambda _: True
    """Returns whether the caller wants the run of a schedule; others are left to somebody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRun(OperationRequest):
    """The outcome of a run that was taken: its result (any JSON value), or an error."""

    run: Annotated[int, Field("The number of the run.", name="run_id")]
    result: Annotated[object, Field("What came of it.")] = None
    error: Annotated[str | None, Field("Why it failed: a failed attempt, which may be tried again.")] = None
    hold: Annotated[str | None, Field("The hold of the taker; refused once somebody else has taken it.")] = None
    kind: str | None = None
    """The only kind of run that is looked for."""


def take_run(call: Call, request: TakeRun) -> Answer[HeldRun | None]:
    """Take a run, whose schedule has the input of the run; None if none waits for the caller."""
    held = call.scheduler.take(call.caller, request.kind, request.subject, request.lease, accepts=request.accepts)
    return Answer(held)


def return_run(call: Call, run: int, hold: str | None) -> None:
    """Let others take a run that was taken, without counting an attempt."""
    with suppress(DuetimeError):
        call.scheduler.finish(call.caller, run, Returned(""), hold=hold)


def finish_run(call: Call, request: FinishRun) -> Answer[Run]:
    """Finish a run that the caller took."""
    if request.result is not None and request.error is not None:
        raise InvalidInput("give one of 'result' and 'error', not both")
    outcome: Completed | Failed = Completed(encode(request.result))
    if request.error is not None:
        outcome = Failed(shorten_error(request.error) or "it failed without a message")
    return Answer(call.scheduler.finish(call.caller, request.run, outcome, request.kind, hold=request.hold))
