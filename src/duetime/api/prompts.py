"""Prompts from Python: taking the due ones, and a small API of functions that count the rows they change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

from duetime.api.create import Creator
from duetime.api.edit import read_time_of
from duetime.api.methods import Opened, Steps, method, waits
from duetime.api.types import TakenPrompt
from duetime.api.values import run_of, wait_for
from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.errors import Conflict, InvalidInput, NotFound
from duetime.engine.validation import Changes
from duetime.engine.value_class import dataclass
from duetime.kinds.prompts.framing import data_of, takes
from duetime.kinds.prompts.kind import KIND, prompt_of
from duetime.service.answers import Run
from duetime.service.operations.create import CreateSchedule, title_of
from duetime.service.operations.declaration import MAX_LIMIT, check_type
from duetime.service.operations.schedules import ListSchedules, pages_of_schedules
from duetime.service.operations.take import LEASE, FinishRun, TakeRun, finish_run, hold_of, return_run, take_run
from duetime.service.options import Duration
from duetime.service.pauses import fires_at
from duetime.service.presenters import author_view, instant_view
from duetime.service.vocabulary import Schedule, iso_local, status_of
from duetime.service.when import read_seconds


@dataclass(frozen=True, slots=True)
class ScheduledTask:
    """A prompt and when it fires."""

    id: int
    """Its number."""
    prompt: str
    """Its text."""
    fire_at: datetime | None
    """When it fires next, or when it last fired."""
    status: str
    """pending, running, paused, completed, failed or cancelled."""
    owner: str
    """Who it belongs to."""


class Prompting:
    @method
    @waits
    def take_prompt(
        self: Opened,
        agent: str | None = None,
        *,
        wait: float = 0,
        lease: Duration = LEASE / SECOND,
        from_agents: bool = True,
    ) -> Steps[TakenPrompt | None]:
        """Take the prompt that has been waiting for an agent the longest; return None if there is none.

        Nobody else gets it for the duration of the lease; end it with `finish_prompt`. `wait` is how many seconds to
        wait for a prompt to become due. With `from_agents=False`, what an agent's run stored is left to others.
        """
        length = int(read_seconds(lease, "lease") * SECOND)
        if length <= 0:
            raise InvalidInput(field="lease", problem="must be greater than zero, such as 30s or 2h")
        request = TakeRun(kind=KIND, subject=agent, lease=length, accepts=takes(from_agents))
        call = self._call
        held = yield from wait_for(lambda: take_run(call, request).value, lambda run: run is not None, wait)
        if held is None:
            return None
        data, _ = data_of(call.scheduler.store, held.definition, held.run)
        facts = {
            "id": held.definition.id,
            "run_id": held.run.id,
            "prompt": prompt_of(held.definition),
            "data": data.strip() or None,
            "author": author_view(held.definition),
            "due": iso_local(held.run.due, call.zone),
            "expires_at": instant_view(held.run.expires, call.zone),
            "hold": hold_of(held.run),
        }
        return TakenPrompt(facts.copy, call.zone)

    @take_prompt.undo
    def _give_back(self: Opened, prompt: TakenPrompt | None) -> None:
        """Let others take a prompt that was taken for a caller who has given up."""
        if prompt is not None:
            return_run(self._call, prompt.run_id, prompt.hold)

    @method
    def finish_prompt(
        self: Opened, run_id: int, result: object = None, *, error: str | None = None, hold: str | None = None
    ) -> Run:
        """Finish a prompt that was taken, with its result (any JSON value) or an error.

        With the `hold` that `take_prompt` returned, this is refused if someone else has taken the prompt since.
        """
        request = FinishRun(run=run_id, result=result, error=error, hold=hold, kind=KIND)
        return run_of(self._call, finish_run(self._call, request).value)

    # -- functions that return the number of changed rows ---------------------------------------------------------

    @method
    def create_scheduled_task(self: Creator, prompt: str, fire_at: datetime) -> ScheduledTask:
        """Create a prompt that fires once."""
        check_type("prompt", prompt, str)
        if not isinstance(fire_at, datetime):
            raise InvalidInput(field="fire_at", problem=f"must be a datetime, not {fire_at!r:.80}")
        request = CreateSchedule(KIND, {"prompt": prompt}, {"at": fire_at}, name=title_of(KIND, {"prompt": prompt}))
        return _scheduled_task(self._create(request).value.schedule)

    @method
    def list_scheduled_tasks(
        self: Opened, status: str | None = None, from_: datetime | None = None, to: datetime | None = None
    ) -> list[ScheduledTask]:
        """Return prompts in the order in which they fire: pending ones, or those with a status, or `all`."""
        request = ListSchedules(
            kind=KIND,
            status=None if status == "all" else status or "pending",
            due_from=read_time_of(self._call, None, from_, "from_"),
            due_to=read_time_of(self._call, None, to, "to"),
            order="time",
            limit=MAX_LIMIT,
            count_to=0,
        )
        pages = pages_of_schedules(self._call, request)
        return [_scheduled_task(schedule) for page in pages for schedule in page.items]

    @method
    def update_scheduled_task(self: Opened, id: int, fire_at: datetime | None = None, prompt: str | None = None) -> int:
        """Change a pending prompt. Return the number of changed rows: 0 means not found or no longer pending."""
        if fire_at is None and prompt is None:
            raise InvalidInput("provide at least one of 'fire_at' or 'prompt'")
        if prompt is not None:
            check_type("prompt", prompt, str)
        scheduler, caller = self._call.scheduler, self._call.caller
        while (schedule := scheduler.find(caller, str(id), KIND)) is not None:
            next = read_time_of(self._call, schedule, fire_at, "fire_at")
            changes = Changes(next=next) if prompt is None else _changed_prompt(schedule, prompt, next)
            changes = replace(changes, pending_only=True)
            try:
                return _rows(partial(scheduler.edit, caller, str(id), changes, KIND))
            except Conflict as conflict:
                if conflict.code != Conflict.code:  # otherwise, it was changed concurrently, and is read again
                    raise
        return 0

    @method
    def cancel_scheduled_task(self: Opened, id: int, *, stop_running: bool = False) -> int:
        """Cancel a pending prompt. Return the number of changed rows: 0 means not found or no longer pending.

        With `stop_running`, a prompt that is running or taken is cancelled, too, and asked to stop.
        """
        call = self._call
        return _rows(partial(call.scheduler.cancel_pending, call.caller, str(id), KIND, stop_running=stop_running))


def _scheduled_task(schedule: Schedule) -> ScheduledTask:
    definition, progress = schedule
    fire_at: Instant | None = progress.through if progress.next is None else fires_at(schedule)
    return ScheduledTask(
        id=definition.id,
        prompt=prompt_of(definition),
        fire_at=None if fire_at is None else datetime_of(fire_at),
        status=status_of(progress),
        owner=definition.owner,
    )


def _changed_prompt(schedule: Schedule, prompt: str, next: Instant | None) -> Changes:
    """Replace the prompt in the payload. The rest is written back as read, so the version must not have changed."""
    payload = {**json.loads(schedule.definition.payload), "prompt": prompt}
    return Changes(prompt[:60], payload=payload, next=next, version=schedule.definition.version)


def _rows(change: Callable[[], object]) -> int:
    """Make a change and return the number of changed rows, 0 if not found or not pending."""
    try:
        change()
    except (NotFound, Conflict) as refusal:
        if refusal.code in ("not_found", "not_possible"):
            return 0
        raise
    return 1
