"""Messages: publish one or a batch, and look up or cancel those that are not finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.errors import DuetimeError, InvalidInput, InvalidTrigger, KeyReused
from duetime.engine.kind import Caller
from duetime.engine.model import OVER, Schedule
from duetime.engine.rule_edits import WHOLE_RULE
from duetime.engine.scheduler import Scheduler
from duetime.engine.scopes import DELETE
from duetime.engine.store import Creation
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.requests.qstash_api.call import (
    PREFIX,
    ApiResponse,
    Asking,
    Request,
    is_changed,
    joined,
    message_for,
    not_found,
    not_offered,
    read_cron,
    read_delay,
    read_moment,
    read_request,
)
from duetime.kinds.requests.qstash_api.lookup import (
    QStashMessage,
    chosen,
    find_living,
    latest_run,
    living_runs,
    living_schedules,
    message_of,
)
from duetime.kinds.requests.qstash_api.views import last_states, message_view, schedule_view, without_nulls
from duetime.kinds.requests.wire import KIND, ONCE, RECURRING
from duetime.service.errors import refuse

WINDOW = 10 * MINUTE
"""How long a further message with the same deduplication id counts as a duplicate."""
MOST_AT_ONCE = 1000
BODY_FIELDS = ("body", "bodyBase64")
MOST_BODY_BYTES = 2 * 1024 * 1024
"""Of all bodies in the list of schedules."""


def publish(asking: Asking) -> ApiResponse:
    [answer] = _create(asking, [_read(asking, asking.destination, asking.headers, asking.body)])
    return ApiResponse(answer, 202 if "deduplicated" in answer else 200)


def publish_batch(asking: Asking) -> ApiResponse:
    """Create all messages or none."""
    documents = asking.json()
    if not isinstance(documents, list) or len(documents) > MOST_AT_ONCE:
        raise InvalidInput(f"the body must be a list of at most {MOST_AT_ONCE} messages")
    requests = []
    for number, each in enumerate(documents):
        try:
            requests.append(_read_one(asking, each))
        except DuetimeError as error:
            raise refuse(error.code, f"message {number}: {message_for(error)}") from None
    return ApiResponse(_create(asking, requests))


def _read_one(asking: Asking, document: Any) -> Request:
    if not isinstance(document, dict) or not isinstance(document.get("destination"), str):
        raise InvalidInput("must be an object with a destination")
    if document.get("queue") is not None:
        raise not_offered("queues are")
    headers, body = document.get("headers"), document.get("body")
    headers = {} if headers is None else headers
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise InvalidInput("headers: must be a table of texts")
    if not isinstance(body, str | None):
        raise InvalidInput("body: must be a text")
    encoded = (body or "").encode("utf-8", "surrogatepass")
    return _read(asking, document["destination"], joined(headers.items()), encoded)


def _read(asking: Asking, destination: str, headers: Mapping[str, str], body: bytes) -> Request:
    request = read_request(asking, destination, headers, body)
    if f"{PREFIX}cron" in headers:
        raise not_offered("a message with Upstash-Cron (create it with POST /v2/schedules instead) is")
    read_moment(headers, asking.scheduler.clock.now())  # so that an error in it is reported for this message
    return request


def _create(asking: Asking, requests: list[Request], tries: int = 2) -> list[dict[str, Any]]:
    scheduler, caller = asking.scheduler, asking.caller
    now = scheduler.clock.now()
    before = [_made_before(asking, each, now) for each in requests]
    fresh = [each for each, known in zip(requests, before, strict=True) if known is None]
    try:
        created = scheduler.create_all(caller, [_new(each, now) for each in fresh], any_request=True)
    except InvalidTrigger:  # the time may just have passed, in which case the message is sent now
        if tries > 1:
            return _create(asking, requests, tries - 1)
        raise
    return _answers(before, created)


def _made_before(asking: Asking, request: Request, now: Instant) -> Schedule | None:
    """Return a duplicate from the previous window, which has another key; the store finds those in this window."""
    key = _key(request, Instant(now - WINDOW))
    before = None if key is None else asking.scheduler.find_by_key(asking.caller, key, KIND)
    return before if before is not None and now - before.definition.created < WINDOW else None


def get_message(asking: Asking) -> ApiResponse:
    return ApiResponse(message_view(*_living(asking), asking.caller.depth))


def cancel_message(asking: Asking) -> ApiResponse:
    _cancel(asking, _living(asking))
    return ApiResponse({"cancelled": 1}, 202)


def _living(asking: Asking) -> QStashMessage:
    id: str = asking.path["message_id"]
    message = find_living(asking, id)
    if message is None:
        raise not_found("message", id)
    return message


def cancel_messages(asking: Asking) -> ApiResponse:
    """Cancel the named messages, those that match the filter, or all; at most `count` or 1000, so that a call ends in
    time."""
    asking.scheduler.check_scopes(asking.caller, DELETE)
    ids, filter_ = chosen(asking, "messageIds")
    if ids is not None:
        messages = (each for id in dict.fromkeys(ids) if (each := find_living(asking, id)) is not None)
    else:
        messages = (each for each in _all(asking) if filter_.fits(message_view(*each, asking.caller.depth)))
    few = islice(messages, filter_.count(MOST_AT_ONCE))
    return ApiResponse({"cancelled": sum(_cancel(asking, each) for each in few)}, 202)


def _all(asking: Asking) -> Iterator[QStashMessage]:
    """Yield every unfinished message, one at a time, because their bodies together may not fit into memory."""
    yield from (QStashMessage(each, None) for each in living_schedules(asking, ONCE))
    for run in living_runs(asking):
        message = message_of(asking, run)
        if message is not None and not message.is_once:
            yield message


def _cancel(asking: Asking, message: QStashMessage) -> bool:
    """Cancel a message. Return False if it ended before it could be cancelled."""
    scheduler, caller = asking.scheduler, asking.caller
    scheduler.check_scopes(caller, DELETE)
    if message.is_once or message.run is None:
        return is_changed(partial(scheduler.cancel, caller, message.schedule.definition.public_id, KIND))
    return is_changed(partial(scheduler.cancel_run, caller, message.run.id))


def _key(request: Request, now: Instant) -> str | None:
    """Return the key of the message's deduplication id or content in a window; None if it is not deduplicated."""
    id = request.headers.get(f"{PREFIX}deduplication-id", "").strip()
    if id:
        text = f"id:{id}"
    elif request.headers.get(f"{PREFIX}content-based-deduplication", "").strip().lower() == "true":
        parts = ("url", "headers", "body", "body_base64")
        text = f"content:{json.dumps([request.payload.get(name) for name in parts], sort_keys=True)}"
    else:
        return None
    return f"qstash:message:{_digest(text)}:{now // WINDOW}"


def _digest(text: str) -> str:
    """Return a digest of a client's text, because a key cannot contain every character."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _new(request: Request, now: Instant) -> NewSchedule:
    when = read_moment(request.headers, now)
    key = _key(request, now)
    return NewSchedule(KIND, request.name, *when[:2], request.payload, request.policy, when.timezone, key)


def _answers(before: Sequence[Schedule | None], creations: Sequence[Creation]) -> list[dict[str, Any]]:
    """Return an answer for each message. Within one batch, too, only the first with the same id is sent."""
    created = iter(creations)
    answers: list[dict[str, Any]] = []
    known_ids: set[str] = set()
    for known in before:
        schedule, fresh = next(created) if known is None else Creation(known, fresh=False)
        id = schedule.definition.public_id
        answers.append({"messageId": id} if fresh and id not in known_ids else {"messageId": id, "deduplicated": True})
        known_ids.add(id)
    return answers


# Schedules: requests that recur by a cron expression.


def create_schedule(asking: Asking) -> ApiResponse:
    cron, when = read_cron(asking.headers)
    request = read_request(asking, asking.destination, asking.headers, asking.body)
    id = asking.headers.get(f"{PREFIX}schedule-id")
    more = {"cron": cron, "delay": read_delay(asking.headers), "id": id}
    payload = request.payload | without_nulls(more)
    new = NewSchedule(KIND, request.name, *when[:2], payload, request.policy, when.timezone)
    if id is None:
        schedule = asking.scheduler.create(asking.caller, new)
        return ApiResponse({"scheduleId": schedule.definition.public_id})
    _upsert(asking.scheduler, asking.caller, new._replace(idempotency_key=_schedule_key(id)))
    return ApiResponse({"scheduleId": id})


def _upsert(scheduler: Scheduler, caller: Caller, new: NewSchedule) -> None:
    """Create or change the schedule with a given id. Ids are per owner, so two owners can use the same one."""
    schedule = scheduler.find_by_key(caller, new.idempotency_key or "", KIND)
    if schedule is not None and schedule.progress.state in OVER:
        scheduler.drafter.draft(caller, new, scheduler.clock.now())  # raises before anything is deleted
        scheduler.delete(caller, schedule.definition.public_id, KIND)
        schedule = None
    if schedule is None:
        with suppress(KeyReused):
            scheduler.create(caller, new)
            return
        schedule = scheduler.find_by_key(caller, new.idempotency_key or "", KIND)  # created concurrently
    if schedule is not None:
        # Allowed during runs, as a schedule is often changed because its messages fail.
        rule = {**WHOLE_RULE, **new.trigger_config}
        changes = Changes(new.name, new.trigger_type, rule, new.payload, new.policy, new.timezone, amid_runs=True)
        scheduler.edit(caller, schedule.definition.public_id, changes, KIND)


def list_schedules(asking: Asking) -> ApiResponse:
    """List the schedules. Bodies are left out once they exceed a limit together; a single schedule always shows its
    own."""
    views, room = [], MOST_BODY_BYTES
    for each in living_schedules(asking, RECURRING):
        view = schedule_view(each, asking.caller.depth)
        size = sum(len(view.get(name) or "") for name in BODY_FIELDS)
        if size > room:
            view = {name: value for name, value in view.items() if name not in BODY_FIELDS}
        else:
            room -= size
        views.append(view)
    return ApiResponse(views)


def get_schedule(asking: Asking) -> ApiResponse:
    schedule = _schedule(asking)
    states = last_states(schedule, latest_run(asking, schedule.definition.id))
    view = schedule_view(schedule, asking.caller.depth)
    return ApiResponse({**view, **({"lastScheduleStates": states} if states else {})})


def change_schedule(change: Callable[[Scheduler, Caller, str, str], object]) -> Callable[[Asking], ApiResponse]:
    """Return the work of a route that deletes, pauses or resumes a schedule."""

    def changed(asking: Asking) -> ApiResponse:
        change(asking.scheduler, asking.caller, _schedule(asking).definition.public_id, KIND)
        return ApiResponse()

    return changed


def _schedule(asking: Asking) -> Schedule:
    id: str = asking.path["schedule_id"]
    schedule = asking.scheduler.find_by_key(asking.caller, _schedule_key(id), KIND)
    if schedule is None and id.startswith(RECURRING):
        schedule = asking.scheduler.find(asking.caller, id, KIND)
    if schedule is None or schedule.progress.state in OVER:
        raise not_found("schedule", id)
    return schedule


def _schedule_key(id: str) -> str:
    return f"qstash:schedule:{_digest(id)}"
