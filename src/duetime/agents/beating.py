"""Keeps the schedule of the heartbeat as the settings want it: made, changed or cancelled at each start."""

from __future__ import annotations

import json
import logging

from duetime.agents.heartbeat import BEAT
from duetime.core.drafting import Changes, NewSchedule
from duetime.core.errors import InvalidInput
from duetime.core.kind import Caller
from duetime.core.model import Definition, Schedule, ScheduleState
from duetime.core.result import Err
from duetime.core.scheduler import Scheduler
from duetime.core.times import read_duration
from duetime.core.triggers import IntervalTrigger, trigger_from_json
from duetime.core.waking import HEARTBEAT

log = logging.getLogger("duetime.heartbeat")

KEY = "duetime:heartbeat"
KIND = "prompt"
_OVER = (ScheduleState.CANCELLED, ScheduleState.ENDED)
_PAYLOAD = {"prompt": BEAT, "agent": HEARTBEAT}
_POLICY = {"overlap": "skip", "catch_up": "skip"}


def keep_beat(scheduler: Scheduler, caller: Caller, every: str, *, alone: bool) -> Schedule | None:
    """The schedule that beats, or None where these settings ask for none. Calling it again changes nothing.

    A pause stays: a person asked for it, or too many beats failed. What was cancelled begins anew while it is wanted.
    `alone`: no other worker lives, whose settings might ask for the beat that these do not know.
    """
    found = scheduler.find_by_key(caller, KEY, KIND)
    if not every:
        if found is not None and alone:
            _end_unknown(scheduler, caller, found)
        return None
    period = _period(every)
    if found is not None and found.progress.state in _OVER:
        scheduler.delete(caller, found.definition.public_id, KIND)  # frees the key; its history stays
        found = None
    if found is None:
        return _made(scheduler, caller, period)
    if _fits(found.definition, period):
        return found
    return _changed(scheduler, caller, found, period)


def _end_unknown(scheduler: Scheduler, caller: Caller, found: Schedule) -> None:
    """Where nobody works who knows the heartbeat, each beat would be tried again and again. One that is paused is not:
    it stays, for whoever paused it."""
    if found.progress.state == ScheduleState.ACTIVE:
        log.info("no settings ask for a heartbeat any more: its schedule is cancelled")
        scheduler.cancel(caller, found.definition.public_id, KIND)


def _period(every: str) -> int:
    try:
        period = read_duration(every)
    except InvalidInput as error:
        raise InvalidInput(f"heartbeat.every: {error.message}", field="heartbeat") from error
    if not period:
        raise InvalidInput("heartbeat.every: must be longer than nothing, such as 30m", field="heartbeat")
    return period


def _made(scheduler: Scheduler, caller: Caller, period: int) -> Schedule | None:
    new = NewSchedule(KIND, HEARTBEAT, "interval", _config(period), _PAYLOAD, _POLICY, idempotency_key=KEY)
    made = scheduler.create(caller, new)
    if isinstance(made, Err):  # everything else still works
        log.error("there is no heartbeat: %s", made.message)
        return None
    return made.value


def _config(period: int) -> dict[str, float]:
    return {"seconds": period / 1_000_000}


def _fits(definition: Definition, period: int) -> bool:
    try:
        trigger = trigger_from_json(definition.trigger)
    except InvalidInput:
        return False
    beats = isinstance(trigger, IntervalTrigger) and trigger.period == period
    return beats and json.loads(definition.payload) == _PAYLOAD


def _changed(scheduler: Scheduler, caller: Caller, found: Schedule, period: int) -> Schedule:
    """Also while a beat is under way: it goes on as it began, and the next one comes by the new rule."""
    changes = Changes(
        trigger_type="interval", trigger_config=_config(period), payload=_PAYLOAD, policy=_POLICY, amid_runs=True
    )
    edited = scheduler.edit(caller, found.definition.public_id, changes, KIND)
    if isinstance(edited, Err):
        log.warning("the heartbeat stays as it was: %s", edited.message)
        return found
    return edited.value
