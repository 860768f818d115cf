"""Messages: publish one or a batch, and look up or cancel those that are not finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.errors import InvalidInput, InvalidTrigger
from duetime.engine.kind import Caller
from duetime.engine.model import LIVE, Schedule, ScheduleState
from duetime.engine.result import Err
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import Created
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.requests.qstash_api.call import (
    PREFIX,
    ApiError,
    ApiResponse,
    Asking,
    Request,
    delay_of_schedule,
    joined,
    not_found,
    not_offered,
    read_cron,
    read_moment,
    read_request,
)
from duetime.kinds.requests.qstash_api.lookup import Filter, Finder, Message
from duetime.kinds.requests.qstash_api.views import last_states, message_view, schedule_view
from duetime.kinds.requests.wire import KIND, ONCE, RECURRING
from duetime.service.errors import unwrap

WINDOW = 10 * MINUTE
"""How long a further message with the same deduplication id counts as a duplicate."""
MOST_AT_ONCE = 1000


class Publish(NamedTuple):
    """A message to create; its time is read from the headers when it is created."""

    request: Request
    headers: Mapping[str, str]
    digest: str | None
    """Digest of its deduplication id or its content; None if it is not deduplicated."""


class Messages:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._finder = scheduler, Finder(scheduler)

    # -- publishing -----------------------------------------------------------------------------------------------

    def publish(self, asking: Asking) -> ApiResponse:
        [made] = self._made(asking.caller, [self._read(asking, asking.destination, asking.headers, asking.body)])
        return ApiResponse(made, 202 if "deduplicated" in made else 200)

    def batch(self, asking: Asking) -> ApiResponse:
        """Create all messages or none."""
        given = asking.json()
        if not isinstance(given, list) or len(given) > MOST_AT_ONCE:
            raise ApiError(400, f"the body must be a list of at most {MOST_AT_ONCE} messages")
        wanted = []
        for number, each in enumerate(given):
            try:
                wanted.append(self._read_one(asking, each))
            except (ApiError, InvalidInput) as error:
                status = error.status if isinstance(error, ApiError) else 400
                raise ApiError(status, f"message {number}: {error.message}") from None
        return ApiResponse(self._made(asking.caller, wanted))

    def _read_one(self, asking: Asking, given: Any) -> Publish:
        if not isinstance(given, dict) or not isinstance(given.get("destination"), str):
            raise ApiError(400, "must be an object with a destination")
        if given.get("queue") is not None:
            raise not_offered("queues are")
        headers, body = given.get("headers"), given.get("body")
        headers = {} if headers is None else headers
        if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
            raise ApiError(400, "headers: must be a table of texts")
        if not isinstance(body, str | None):
            raise ApiError(400, "body: must be a text")
        encoded = (body or "").encode("utf-8", "surrogatepass")
        return self._read(asking, given["destination"], joined(headers.items()), encoded)

    def _read(self, asking: Asking, destination: str, headers: Mapping[str, str], body: bytes) -> Publish:
        request = read_request(self._scheduler, asking.caller, destination, headers, body)
        read_moment(headers, self._scheduler.clock.now())  # so that an error in it is reported for this message
        return Publish(request, headers, _digest(request, headers))

    def _made(self, caller: Caller, wanted: list[Publish], tries: int = 2) -> list[dict[str, Any]]:
        now = self._scheduler.clock.now()
        before = [self._made_before(caller, each.digest, now) for each in wanted]
        fresh = [each for each, known in zip(wanted, before, strict=True) if known is None]
        made = self._scheduler.create_unless_known(caller, [_new(each, now) for each in fresh])
        if isinstance(made, Err) and tries > 1 and made.code == InvalidTrigger.code:
            return self._made(caller, wanted, tries - 1)  # the time may just have passed: then send it now
        return _answers(before, unwrap(made))

    def _made_before(self, caller: Caller, digest: str | None, now: Instant) -> Schedule | None:
        """Return a duplicate from the previous window, which has another key; the store finds those in this window."""
        if digest is None:
            return None
        before = self._scheduler.find_by_key(caller, _key(digest, Instant(now - WINDOW)), KIND)
        return before if before is not None and now - before.definition.created < WINDOW else None

    # -- looking up and cancelling -----------------------------------------------------------------------------------

    def get(self, asking: Asking) -> ApiResponse:
        return ApiResponse(message_view(*self._living(asking), asking.caller.depth))

    def cancel(self, asking: Asking) -> ApiResponse:
        self._cancel(asking.caller, self._living(asking))
        return ApiResponse({"cancelled": 1}, 202)

    def _living(self, asking: Asking) -> Message:
        """Return an unfinished message; delivered, failed and cancelled ones are only in the logs and the DLQ."""
        id: str = asking.path["message_id"]
        found = self._finder.living(asking.caller, id)
        if found is None:
            raise not_found("message", id)
        return found

    def cancel_many(self, asking: Asking) -> ApiResponse:
        """Cancel the named messages, those that match the filter, or all; at most 1000, so that a call ends in time."""
        ids = asking.ids("messageIds")
        if ids is not None:
            found = [each for id in dict.fromkeys(ids) if (each := self._finder.living(asking.caller, id)) is not None]
        else:
            wanted = Filter(asking.filters("messageIds")).must_be_known()
            found = [each for each in self._all(asking.caller) if wanted.fits(message_view(*each, asking.caller.depth))]
        return ApiResponse({"cancelled": sum(self._cancel(asking.caller, each) for each in found[:MOST_AT_ONCE])}, 202)

    def _all(self, caller: Caller) -> list[Message]:
        living = self._finder.all_schedules(caller, "living")
        once = [Message(each, None) for each in living if each.definition.public_id.startswith(ONCE)]
        runs = [run for status in sorted(LIVE) for run in self._finder.all_runs(caller, status)]
        recurring = [self._finder.of_run(caller, run) for run in runs]
        return once + [each for each in recurring if each is not None and not each.is_once]

    def _cancel(self, caller: Caller, message: Message) -> bool:
        """Cancel a message. Return False if it ended before it could be cancelled."""
        if message.is_once:
            done = self._scheduler.cancel(caller, message.schedule.definition.public_id, KIND)
        else:
            done = self._scheduler.cancel_run(caller, 0 if message.run is None else message.run.id)
        return not isinstance(done, Err)


def _digest(request: Request, headers: Mapping[str, str]) -> str | None:
    given = headers.get(f"{PREFIX}deduplication-id")
    if given is not None:
        return hashlib.sha256(f"id:{given}".encode("utf-8", "surrogatepass")).hexdigest()[:40]
    if headers.get(f"{PREFIX}content-based-deduplication", "").strip().lower() != "true":
        return None
    parts = ("url", "headers", "body", "body_base64")
    content = json.dumps([request.payload.get(name) for name in parts], sort_keys=True)
    return hashlib.sha256(f"content:{content}".encode()).hexdigest()[:40]


def _key(digest: str, now: Instant) -> str:
    return f"qstash:message:{digest}:{now // WINDOW}"


def _new(wanted: Publish, now: Instant) -> NewSchedule:
    when = read_moment(wanted.headers, now)
    key = None if wanted.digest is None else _key(wanted.digest, now)
    request = wanted.request
    return NewSchedule(KIND, request.name, *when[:2], request.payload, request.policy, when.timezone, key)


def _answers(before: Sequence[Schedule | None], made: list[Created]) -> list[dict[str, Any]]:
    """Return an answer for each message. Within one batch, too, only the first with the same id is sent."""
    created = iter(made)
    answers: list[dict[str, Any]] = []
    told: set[str] = set()
    for known in before:
        schedule, fresh = next(created) if known is None else Created(known, fresh=False)
        id = schedule.definition.public_id
        answers.append({"messageId": id} if fresh and id not in told else {"messageId": id, "deduplicated": True})
        told.add(id)
    return answers


# Schedules: requests that recur by a cron expression.

_OVER = frozenset({ScheduleState.CANCELLED, ScheduleState.ENDED})


class Schedules:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._finder = scheduler, Finder(scheduler)

    def create(self, asking: Asking) -> ApiResponse:
        cron, when = read_cron(asking.headers)
        request = read_request(self._scheduler, asking.caller, asking.destination, asking.headers, asking.body)
        given = asking.headers.get(f"{PREFIX}schedule-id")
        more: dict[str, Any] = {"cron": cron, "delay": delay_of_schedule(asking.headers), "id": given}
        payload = request.payload | {name: value for name, value in more.items() if value is not None}
        new = NewSchedule(KIND, request.name, *when[:2], payload, request.policy, when.timezone)
        if given is None:
            made = unwrap(self._scheduler.create(asking.caller, new))
            return ApiResponse({"scheduleId": made.definition.public_id})
        self._upsert(asking.caller, replace(new, idempotency_key=_schedule_key(given)))
        return ApiResponse({"scheduleId": given})

    def _upsert(self, caller: Caller, new: NewSchedule) -> None:
        """Create or change the schedule with a given id. Ids are per owner, so two owners can use the same one."""
        found = self._scheduler.find_by_key(caller, new.idempotency_key or "", KIND)
        if found is not None and found.progress.state in _OVER:
            unwrap(self._scheduler.delete(caller, found.definition.public_id, KIND))
            found = None
        if found is None:
            made = self._scheduler.create(caller, new)
            if not isinstance(made, Err) or made.code != "key_reused":
                unwrap(made)
                return
            found = self._scheduler.find_by_key(caller, new.idempotency_key or "", KIND)  # created concurrently
        if found is not None:
            # Allowed during runs, as a schedule is often changed because its messages fail.
            changes = Changes(
                name=new.name,
                trigger_type=new.trigger_type,
                trigger_config=new.trigger_config,
                payload=new.payload,
                policy=new.policy,
                timezone=new.timezone,
                amid_runs=True,
            )
            unwrap(self._scheduler.edit(caller, found.definition.public_id, changes, KIND))

    def listed(self, asking: Asking) -> ApiResponse:
        found = self._finder.all_schedules(asking.caller, "living")
        recurring = [each for each in found if each.definition.public_id.startswith(RECURRING)]
        return ApiResponse([schedule_view(each, asking.caller.depth) for each in recurring])

    def get(self, asking: Asking) -> ApiResponse:
        schedule = self._find(asking)
        latest = self._finder.latest_run(asking.caller, schedule.definition.id)
        states = last_states(schedule, latest)
        view = schedule_view(schedule, asking.caller.depth)
        return ApiResponse({**view, **({"lastScheduleStates": states} if states else {})})

    def delete(self, asking: Asking) -> ApiResponse:
        unwrap(self._scheduler.delete(asking.caller, self._find(asking).definition.public_id, KIND))
        return ApiResponse()

    def pause(self, asking: Asking) -> ApiResponse:
        unwrap(self._scheduler.pause(asking.caller, self._find(asking).definition.public_id, KIND))
        return ApiResponse()

    def resume(self, asking: Asking) -> ApiResponse:
        unwrap(self._scheduler.resume(asking.caller, self._find(asking).definition.public_id, KIND))
        return ApiResponse()

    def _find(self, asking: Asking) -> Schedule:
        id: str = asking.path["schedule_id"]
        found = self._scheduler.find_by_key(asking.caller, _schedule_key(id), KIND)
        if found is None and id.startswith(RECURRING):
            found = self._scheduler.find(asking.caller, id, KIND)
        if found is None or found.progress.state in _OVER:
            raise not_found("schedule", id)
        return found


def _schedule_key(given: str) -> str:
    """Return the key for an id, hashed because the id may be any text."""
    return f"qstash:schedule:{hashlib.sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"
