"""Routes for schedules of all kinds: create, search, read, edit, run, delete."""

from __future__ import annotations

import re
from contextlib import nullcontext
from functools import lru_cache, partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Body, Header, Path, Query
from starlette.responses import JSONResponse, Response

from duetime.engine.errors import Conflict
from duetime.rest.dependencies import Caller, Threads, page_of_texts, problems, router, to_json
from duetime.rest.operation_models import model_of, request_of
from duetime.rest.requests import (
    Asked,
    EditGiven,
    GivenInZone,
    NewScheduleGiven,
    Paged,
    naming_trigger,
    times_in,
    trigger_parts,
)
from duetime.rest.responses import ChangedShape, RunsShape, SchedulesShape, StoppedShape
from duetime.rest.runs import answer_runs, started_shape
from duetime.service import answers
from duetime.service.errors import refuse
from duetime.service.lookup import find
from duetime.service.operations.change import Cancel, ChangeRequest, Delete, Pause, Restore, Resume, change
from duetime.service.operations.change_many import ChangeMany, change_many
from duetime.service.operations.create import CreateSchedule
from duetime.service.operations.create import create as create_schedule
from duetime.service.operations.edit import EditSchedule
from duetime.service.operations.edit import edit as edit_schedule
from duetime.service.operations.history import History, run_views
from duetime.service.operations.history import history as read_history
from duetime.service.operations.run import RunNow, Stop, run_now
from duetime.service.operations.run import stop as stop_runs
from duetime.service.operations.schedules import (
    ListSchedules,
    NextTimes,
    detail_of,
    details_of,
    list_schedules,
    next_times,
)
from duetime.service.operations.waiting import await_result, has_ended, look_again, waited_for
from duetime.service.presenters import schedule_shape
from duetime.service.services import Call
from duetime.service.vocabulary import Schedule
from duetime.service.warnings import warning_facts
from duetime.service.when import ways_in

BulkGiven: Any = model_of("BulkGiven", ChangeMany, GivenInZone)
SchedulesAsked: Any = model_of("SchedulesAsked", ListSchedules, Paged, "limit", "cursor")
NextAsked: Any = model_of("NextAsked", NextTimes, Asked)
PauseAsked: Any = model_of("PauseAsked", Pause, Asked, "schedule")
RunAsked: Any = model_of("RunAsked", RunNow, Asked, "schedule", "fields")
DeleteAsked: Any = model_of("DeleteAsked", Delete, Asked, "schedule")
routes = router("schedules")
Id = Annotated[str, Path(description="The id or number of a schedule, or an unambiguous name.", max_length=200)]
IdempotencyKey = Annotated[str | None, Header(description="As `idempotency_key` in the body.", max_length=200)]
IfMatch = Annotated[
    str | None, Header(description="The ETag of the version that was read, like `version` in the body.")
]
_TAG = re.compile(r'(?:W/)?"([0-9]{1,18})"')
_SHORT = 1000
"""Maximum length of a payload in characters for which the JSON of its schedule is cached."""
_ONE = problems(404, 409)


def _answer(call: Call, schedule: Schedule, status: int = 200, **more: Any) -> Response:
    headers = {"ETag": f'"{schedule.definition.version}"'}
    if status == 201:
        headers["Location"] = f"/api/v1/schedules/{quote(schedule.definition.public_id, safe='')}"
    detail = detail_of(call, schedule)
    return JSONResponse(schedule_shape(schedule, call.zone, detail) | more, status, headers)


# -- create ---------------------------------------------------------------------------------------------------------


@routes.post(
    "/schedules",
    status_code=201,
    response_model=answers.Created,
    responses={200: {"description": "What the same key made before.", "model": answers.Created}, **problems(409, 415)},
)
def create(call: Caller, body: Annotated[NewScheduleGiven, Body()], idempotency_key: IdempotencyKey = None) -> Response:
    """Create a schedule. Repeating a request with the same idempotency key creates nothing. If notifications are kept
    at QStash, they cannot be created here."""
    call = call.in_zone(body.timezone)
    with naming_trigger(body, body.trigger):
        created, warnings, _ = create_schedule(call, _create_request(body, idempotency_key))
    more = {**warning_facts(warnings), "limits": created.limits}
    return _answer(call, created.schedule, 201 if created.fresh else 200, **more)


def _create_request(body: NewScheduleGiven, header: str | None) -> CreateSchedule:
    key = body.idempotency_key if header is None else header
    if body.idempotency_key not in (None, key):
        words = "idempotency_key: differs from the header Idempotency-Key; give only one"
        raise refuse("invalid", words, "idempotency_key")
    policy = body.policy.model_dump(exclude_none=True)
    return CreateSchedule(
        body.kind,
        body.payload,
        times_in(body),
        trigger_parts(body.trigger),
        policy if body.max_runs is None else {**policy, "max_runs": body.max_runs},
        body.name,
        key,
    )


# -- read -----------------------------------------------------------------------------------------------------------


@routes.get("/schedules", response_model=SchedulesShape)
def search(call: Caller, query: Annotated[SchedulesAsked, Query()]) -> Response:
    """List schedules in a stable order, page by page. Above 10,000 matches, the total only says that there are more."""
    call = call.in_zone(query.timezone)
    page, _, notes = list_schedules(call, request_of(ListSchedules, query))
    details = details_of(call, page.items)
    texts = [_listed(item, call.zone, details.get(item.definition.id)) for item in page.items]
    return page_of_texts("schedules", texts, page, **({"notes": list(notes)} if notes else {}))


def _listed(schedule: Schedule, zone: str, detail: str | None) -> str:
    """Return a schedule in a list as JSON; cached, because most of a list is the same when it is read again."""
    listed = _short_listed if len(schedule.definition.payload) <= _SHORT else _short_listed.__wrapped__
    return listed(schedule, zone, detail)


@lru_cache(maxsize=2048)
def _short_listed(schedule: Schedule, zone: str, detail: str | None) -> str:
    return to_json(schedule_shape(schedule, zone, detail, brief=True))


@routes.get("/schedules/{id}", response_model=answers.Schedule, responses=_ONE)
def get(call: Caller, id: Id, query: Annotated[Asked, Query()]) -> Response:
    """Return one schedule; its ETag is its version."""
    call = call.in_zone(query.timezone)
    return _answer(call, find(call, id))


@routes.get("/schedules/{id}/runs", response_model=RunsShape, responses=_ONE)
def history(call: Caller, id: Id, query: Annotated[Paged, Query()]) -> Response:
    """List the runs of a schedule, the latest first; also of one that was deleted."""
    call = call.in_zone(query.timezone)
    return answer_runs(call, read_history(call, request_of(History, query, schedule=id)))


@routes.get("/schedules/{id}/next", response_model=answers.Preview, responses=_ONE)
def following(call: Caller, id: Id, query: Annotated[NextAsked, Query()]) -> Response:
    """List the next times of a schedule; none while it is paused, broken or over."""
    call = call.in_zone(query.timezone)
    times, warnings, _ = next_times(call, request_of(NextTimes, query, schedule=id))
    return JSONResponse(times.facts(call.zone, warnings))


# -- change ---------------------------------------------------------------------------------------------------------


@routes.patch("/schedules/{id}", response_model=answers.Created, responses=problems(404, 409, 412, 415))
def edit(call: Caller, id: Id, body: Annotated[EditGiven, Body()], if_match: IfMatch = None) -> Response:
    """Change the given fields. With a version, only if nobody else has changed it since. A run in progress keeps its
    values. A one-off that has started cannot be changed, but a waiting prompt can be given another agent."""
    schedule = find(call, id)
    if body.timezone is not None and body.trigger is None and body.next is None and not ways_in(times_in(body)):
        raise refuse("invalid", "timezone: requires a trigger or next; give that, too", "timezone")
    expected = _expected(if_match, schedule.definition.version)
    if body.version is not None and expected is not None and body.version != expected:
        raise refuse("invalid", "version: differs from the header If-Match; give only one", "version")
    call = call.in_zone(body.timezone)
    request = _edit_request(schedule, body, body.version if expected is None else expected)
    try:
        with naming_trigger(body, body.trigger):
            edited, warnings, notes = edit_schedule(call, request)
    except Conflict as error:
        if error.code != "conflict" or expected is None:
            raise
        raise refuse("changed", error.message) from None
    more: dict[str, Any] = {**warning_facts(warnings), **({"notes": notes} if notes else {}), "limits": edited.limits}
    return _answer(call, edited.schedule, **more)


def _expected(if_match: str | None, version: int) -> int | None:
    """Return the version that If-Match requires: None for any, 0 if it does not name the current version."""
    if if_match is None or if_match.strip() == "*":
        return None
    named = [int(tag) for tag in _TAG.findall(if_match)]
    return version if version in named else 0


def _edit_request(schedule: Schedule, body: EditGiven, version: int | None) -> EditSchedule:
    """Return the request of a body, in which null removes a limit. A name stays unless it is given."""
    times = times_in(body)
    if body.trigger is None and not ways_in(times):
        times.pop("timezone", None)  # of `next`
    return EditSchedule(
        schedule=schedule,
        name=body.name,
        keep_name=True,
        times=times,
        trigger=trigger_parts(body.trigger, with_nulls=True),
        next=body.next,
        starting=body.starting,
        payload=body.payload,
        policy={} if body.policy is None else body.policy.model_dump(exclude_unset=True),
        version=version,
    )


def _changed(call: Call, request: ChangeRequest) -> Response:
    changed = change(call, request).value
    return _answer(call, changed.schedule, **changed.facts())


@routes.post("/schedules/{id}/pause", response_model=answers.Schedule, responses=_ONE)
def pause(call: Caller, id: Id, query: Annotated[PauseAsked, Query()]) -> Response:
    """Pause a schedule until it is resumed, or until a time at which it resumes automatically."""
    return _changed(call.in_zone(query.timezone), request_of(Pause, query, schedule=id))


@routes.post("/schedules/{id}/resume", response_model=answers.Schedule, responses=_ONE)
def resume(call: Caller, id: Id) -> Response:
    """Resume a schedule from now on; what did not run in the meantime is one row of its history."""
    return _changed(call, Resume(schedule=id))


@routes.post("/schedules/{id}/cancel", response_model=answers.Schedule, responses=_ONE)
def cancel(call: Caller, id: Id) -> Response:
    """Cancel a schedule for good and ask a run in progress to stop. Cancelling twice is not an error."""
    return _changed(call, Cancel(schedule=id))


@routes.post(
    "/schedules/{id}/run",
    status_code=202,
    response_model=answers.Run,
    responses={200: {"description": "The run has ended.", "model": answers.Run}, **_ONE},
)
async def run(call: Caller, threads: Threads, id: Id, query: Annotated[RunAsked, Query()]) -> Response:
    """Run a schedule now, in addition to its trigger. With `wait_seconds`, the answer comes when the run has ended
    (200) or the time is up (202, `ended` is false, and `reason` says why)."""
    call = call.in_zone(query.timezone)
    in_thread = partial(threads.run, call.caller.owner)
    with threads.waiting(call.caller.owner) if query.wait_seconds else nullcontext():
        started = await in_thread(partial(run_now, call, request_of(RunNow, query, schedule=id)))
        look = lambda seen: in_thread(partial(look_again, call, seen))  # noqa: E731
        run = await await_result(started.value, look, has_ended, query.wait_seconds)
    waited = await in_thread(partial(waited_for, call, run)) if query.wait_seconds else {}
    shape = await in_thread(partial(started_shape, call, started._replace(value=run)))
    return JSONResponse(shape | waited, 200 if has_ended(run) else 202)


@routes.post("/schedules/{id}/stop", status_code=202, response_model=StoppedShape, responses=_ONE)
def stop(call: Caller, id: Id) -> Response:
    """Stop the runs of a schedule that are in progress or waiting; the schedule continues."""
    (stopped, schedule), _, notes = stop_runs(call, Stop(schedule=find(call, id)))
    shape = None if schedule is None else schedule_shape(schedule, call.zone)
    runs = run_views(call, stopped)
    return JSONResponse({"runs": runs, "schedule": shape, "confirmation": " ".join(notes)}, 202)


@routes.post("/schedules/{id}/restore", response_model=answers.Schedule, responses=_ONE)
def restore(call: Caller, id: Id) -> Response:
    """Restore a schedule that was cancelled, or deleted within the last day. It goes on from now, without catching
    up."""
    return _changed(call, Restore(schedule=id))


@routes.delete("/schedules/{id}", status_code=204, response_class=Response, responses=_ONE)
def delete(call: Caller, id: Id, query: Annotated[DeleteAsked, Query()]) -> Response:
    """Delete a schedule. Its history stays readable; its idempotency key is free again. It can be restored for a day,
    unless it is deleted `forever`."""
    change(call, request_of(Delete, query, schedule=id))
    return Response(status_code=204)


@routes.post("/schedules/change", response_model=ChangedShape, responses=problems(409, 415))
def change_schedules(call: Caller, body: Annotated[BulkGiven, Body()]) -> Response:
    """Pause, resume, cancel, delete, restore or shift many of the caller's own: by `ids`, by a filter, or `all` that
    may still fire."""
    changed = change_many(call.in_zone(body.timezone), request_of(ChangeMany, body)).value
    return JSONResponse(changed.facts())
