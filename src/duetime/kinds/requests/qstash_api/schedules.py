"""Schedules: requests that recur by a cron expression."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from duetime.engine.kind import Caller
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.result import Err
from duetime.engine.scheduler import Scheduler
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.requests.qstash_api.call import Answer, Asking, not_found, value_of
from duetime.kinds.requests.qstash_api.headers import PREFIX, delay_of_schedule, read_cron, request_of
from duetime.kinds.requests.qstash_api.lookup import Finder
from duetime.kinds.requests.qstash_api.views import last_states, schedule_view
from duetime.kinds.requests.wire import KIND, RECURRING

_OVER = frozenset({ScheduleState.CANCELLED, ScheduleState.ENDED})


class Schedules:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._finder = scheduler, Finder(scheduler)

    def create(self, asking: Asking) -> Answer:
        cron, moment = read_cron(asking.headers)
        request = request_of(self._scheduler, asking.caller, asking.destination, asking.headers, asking.body)
        given = asking.headers.get(f"{PREFIX}schedule-id")
        more: dict[str, Any] = {"cron": cron, "delay": delay_of_schedule(asking.headers), "id": given}
        payload = request.payload | {name: value for name, value in more.items() if value is not None}
        new = NewSchedule(KIND, request.name, *moment[:2], payload, request.policy, moment.timezone)
        if given is None:
            made = value_of(self._scheduler.create(asking.caller, new))
            return Answer({"scheduleId": made.definition.public_id})
        self._upsert(asking.caller, replace(new, idempotency_key=_key(given)))
        return Answer({"scheduleId": given})

    def _upsert(self, caller: Caller, new: NewSchedule) -> None:
        """Create or change the schedule with a given id. Ids are per owner, so two owners can use the same one."""
        found = self._scheduler.find_by_key(caller, new.idempotency_key or "", KIND)
        if found is not None and found.progress.state in _OVER:
            value_of(self._scheduler.delete(caller, found.definition.public_id, KIND))
            found = None
        if found is None:
            made = self._scheduler.create(caller, new)
            if not isinstance(made, Err) or made.code != "key_reused":
                value_of(made)
                return
            found = self._scheduler.find_by_key(caller, new.idempotency_key or "", KIND)  # created concurrently
        if found is not None:
            value_of(self._scheduler.edit(caller, found.definition.public_id, _changes(new), KIND))

    def listed(self, asking: Asking) -> Answer:
        found = self._finder.all_schedules(asking.caller, "living")
        recurring = [each for each in found if each.definition.public_id.startswith(RECURRING)]
        return Answer([schedule_view(each, asking.caller.depth) for each in recurring])

    def get(self, asking: Asking) -> Answer:
        schedule = self._find(asking)
        latest = self._finder.latest_run(asking.caller, schedule.definition.id)
        states = last_states(schedule, latest)
        view = schedule_view(schedule, asking.caller.depth)
        return Answer({**view, **({"lastScheduleStates": states} if states else {})})

    def delete(self, asking: Asking) -> Answer:
        value_of(self._scheduler.delete(asking.caller, self._find(asking).definition.public_id, KIND))
        return Answer()

    def pause(self, asking: Asking) -> Answer:
        value_of(self._scheduler.pause(asking.caller, self._find(asking).definition.public_id, KIND))
        return Answer()

    def resume(self, asking: Asking) -> Answer:
        value_of(self._scheduler.resume(asking.caller, self._find(asking).definition.public_id, KIND))
        return Answer()

    def _find(self, asking: Asking) -> Schedule:
        id: str = asking.path["schedule_id"]
        found = self._scheduler.find_by_key(asking.caller, _key(id), KIND)
        if found is None and id.startswith(RECURRING):
            found = self._scheduler.find(asking.caller, id, KIND)
        if found is None or found.progress.state in _OVER:
            raise not_found("schedule", id)
        return found


def _key(given: str) -> str:
    """Return the key for an id, hashed because the id may be any text."""
    return f"qstash:schedule:{hashlib.sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def _changes(new: NewSchedule) -> Changes:
    """Return the changes. They are allowed during runs, as a schedule is often changed because its messages fail."""
    return Changes(
        name=new.name,
        trigger_type=new.trigger_type,
        trigger_config=new.trigger_config,
        payload=new.payload,
        policy=new.policy,
        timezone=new.timezone,
        amid_runs=True,
    )
