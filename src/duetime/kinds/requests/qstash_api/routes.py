"""Routes of the QStash-compatible API, under `/v2`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from anyio import to_thread
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from duetime.engine.errors import DuetimeError
from duetime.engine.scheduler import Scheduler
from duetime.kinds.requests.kind import RequestKind
from duetime.kinds.requests.qstash_api import logs, messages
from duetime.kinds.requests.qstash_api.call import (
    ApiResponse,
    Asking,
    as_text,
    error_response,
    joined,
    not_offered,
    raw_destination,
)
from duetime.kinds.requests.signing_keys import SigningKeys
from duetime.service.errors import refuse
from duetime.service.services import Call, Services


class _Anything(PathConvertor):
    """Path converter that also matches line breaks, which a destination may contain percent-encoded."""

    regex = "(?s:.*)"


register_url_convertor("anything", _Anything())

Work = Callable[[Asking], ApiResponse]
Handler = Callable[[Request], Awaitable[Response]]

PUBLISH, SCHEDULES = "/v2/publish/", "/v2/schedules/"
_ANY = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_ABSENT = {
    "queues": "queues are",
    "enqueue": "queues are",
    "topics": "URL groups are",
    "flowControl": "flow control is",
    "bulkActions": "bulk actions in the background are",
    "workflows": "workflows are",
}


def routes(services: Services, identify: Callable[[], Call]) -> list[BaseRoute]:
    """Return the routes for the HTTP application; `identify` returns the call of the current request."""
    keys = services.kind(RequestKind).keys
    assert keys is not None, "this kind was built without signing keys"

    def serve(path: str, work: Work, *methods: str) -> Route:
        return Route(path, _handler(work, services.scheduler, identify), methods=list(methods))

    absent = [
        serve(f"/v2/{name}{rest}", _absent(what), *_ANY)
        for name, what in _ABSENT.items()
        for rest in ("", "/{rest:anything}")
    ]
    return [
        serve("/v2/schedules", messages.list_schedules, "GET"),
        serve("/v2/schedules/{schedule_id}/pause", messages.change_schedule(Scheduler.pause), "PATCH", "POST"),
        serve("/v2/schedules/{schedule_id}/resume", messages.change_schedule(Scheduler.resume), "PATCH", "POST"),
        serve("/v2/schedules/{schedule_id}", messages.get_schedule, "GET"),
        serve("/v2/schedules/{schedule_id}", messages.change_schedule(Scheduler.delete), "DELETE"),
        serve(SCHEDULES + "{destination:anything}", messages.create_schedule, "POST"),
        serve(PUBLISH + "{destination:anything}", messages.publish, *_ANY),
        serve("/v2/batch", messages.publish_batch, "POST"),
        serve("/v2/messages", messages.cancel_messages, "DELETE"),
        serve("/v2/messages/{message_id}", messages.get_message, "GET"),
        serve("/v2/messages/{message_id}", messages.cancel_message, "DELETE"),
        serve("/v2/dlq", logs.list_failures, "GET"),
        serve("/v2/dlq", logs.delete_failures, "DELETE"),
        serve("/v2/dlq/retry", logs.retry_failures, "POST"),
        serve("/v2/dlq/retry/{dlq_id}", logs.retry_failure, "POST"),
        serve("/v2/dlq/{dlq_id}", logs.get_failure, "GET"),
        serve("/v2/dlq/{dlq_id}", logs.delete_failure, "DELETE"),
        serve("/v2/events", logs.list_events, "GET"),
        serve("/v2/logs", logs.list_events, "GET"),
        serve("/v2/keys", _keys(keys, rotated=False), "GET"),
        serve("/v2/keys/rotate", _keys(keys, rotated=True), "POST"),
        *absent,
        serve("/v2", _nowhere, *_ANY),
        serve("/v2/{rest:anything}", _nowhere, *_ANY),
    ]


def _handler(work: Work, scheduler: Scheduler, identify: Callable[[], Call]) -> Handler:
    async def handle(request: Request) -> Response:
        # Operators are ordinary users of this API: they list and cancel only what they own.
        caller = identify().caller._replace(operator=False)
        query = request.query_params
        route = PUBLISH if request.url.path.startswith(PUBLISH) else SCHEDULES
        raw = request.scope.get("raw_path") or request.scope["path"].encode()
        asking = Asking(
            scheduler=scheduler,
            caller=caller,
            headers=joined((name, as_text(value)) for name, value in request.headers.items()),
            query={name: query.getlist(name) for name in query},
            path=request.path_params,
            destination=raw_destination(raw, request.scope["query_string"], route),
            body=await request.body(),
        )
        answer = await to_thread.run_sync(_answered, work, asking)
        if answer.body is None:
            return Response(status_code=answer.status)
        return JSONResponse(answer.body, answer.status)

    return handle


def _answered(work: Work, asking: Asking) -> ApiResponse:
    try:
        return work(asking)
    except DuetimeError as error:
        return error_response(error)


def _absent(what: str) -> Work:
    def refuse(_asking: Asking) -> ApiResponse:
        raise not_offered(what)

    return refuse


def _nowhere(_asking: Asking) -> ApiResponse:
    raise refuse("not_found", "there is no such route, or it does not support this method")


def _keys(keys: SigningKeys, *, rotated: bool) -> Work:
    def show(asking: Asking) -> ApiResponse:
        if asking.caller.depth:
            raise refuse("depth", "the run of an agent may not read the keys that sign its owner's requests")
        if asking.caller.scopes:
            raise refuse("scope", "a token with scopes may not read the keys that sign its owner's requests")
        if rotated:
            keys.rotate(asking.caller.owner)
        current, following = keys.both(asking.caller.owner)
        return ApiResponse({"current": current, "next": following})

    return show
