"""Answers valid requests without the framework's general code, which costs several times as much as the work itself.

A request is answered here only if it passes every check of its route. All others go to the framework, which alone
refuses requests, so that each refusal has one origin. Routes are declared once, for the framework.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, get_type_hints
from urllib.parse import parse_qsl

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duetime.http.auth import WebContext
from duetime.http.bodies import IN_LOOP
from duetime.http.problems import API
from duetime.http.threads import RequestThreads
from duetime.rest.dependencies import call_of, context_of, is_json, json_only
from duetime.rest.errors import log_unexpected

_PARAMETER: Final = re.compile(r"\{\w+\}")
_ID: Final = 3
"""Index of the id among the segments of a route such as `/v1/schedules/{id}/cancel`."""
_KNOWN_DEPENDENCIES: Final = {call_of, context_of, json_only}


class NotDirect(Exception):
    """The framework has to answer the request."""


class EndpointArgument(NamedTuple):
    """An argument of an endpoint, and how it is validated."""

    name: str
    header: str
    validate: Callable[[Any], tuple[Any, Sequence[Any]]]

    def read(self, value: Any) -> Any:
        read, errors = self.validate(value)
        if errors:
            raise NotDirect
        return read


class EndpointPlan(NamedTuple):
    """How the arguments of an endpoint are taken from a request."""

    endpoint: Callable[..., Response]
    dependencies: Mapping[str, Any]
    path: EndpointArgument | None
    query: EndpointArgument | None
    headers: list[EndpointArgument]
    body: EndpointArgument | None


class Direct:
    """Middleware before all routes. `api` is the framework's application, which is one of these routes."""

    def __init__(self, app: ASGIApp, api: FastAPI) -> None:
        self._app, self._handlers = app, api.exception_handlers
        self._context: WebContext = api.state.context
        plans = dict(_plans(api))
        self._by_path = {key: plan for key, plan in plans.items() if plan.path is None}
        self._by_id = {key: plan for key, plan in plans.items() if plan.path is not None}
        self._threads = RequestThreads()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        plan, id = self._find(scope)
        if plan is None:
            await self._app(scope, receive, send)
            return
        read: list[Message] = []
        try:
            values = _values(plan, scope, id)
            if plan.body is not None:
                read.append(await receive())
                values[plan.body.name] = plan.body.read(_parsed(read[0]))
        except NotDirect:
            await self._app(scope, partial(_again, read, receive), send)
            return
        for name, dependency in plan.dependencies.items():
            values[name] = self._context if dependency is context_of else self._context.identify("rest")
        try:
            response = await self._threads.run(partial(plan.endpoint, **values))
        except Exception as error:
            response = await self._failed(scope, error)
        await response(scope, receive, send)

    async def _failed(self, scope: Scope, error: Exception) -> Response:
        """Return the response of the framework's handler for this error."""
        kind = next(each for each in type(error).__mro__ if each in self._handlers)
        if kind is Exception:
            log_unexpected(scope)
        response: Response = await self._handlers[kind](Request(scope), error)  # type: ignore[misc]
        return response

    def _find(self, scope: Scope) -> tuple[EndpointPlan | None, str]:
        path: str = scope["path"]
        if not path.startswith(API) or scope["type"] != "http" or scope.get("root_path"):
            return None, ""
        method, path = scope["method"], path[len(API) :]
        plan = self._by_path.get((method, path))
        if plan is not None:
            return plan, ""
        segments = path.split("/")
        id = segments[_ID] if len(segments) > _ID else ""
        if not id:
            return None, ""
        segments[_ID] = "{id}"
        return self._by_id.get((method, "/".join(segments))), id


async def _again(read: list[Message], receive: Receive) -> Message:
    return read.pop() if read else await receive()


def _values(plan: EndpointPlan, scope: Scope, id: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if plan.path is not None:
        values[plan.path.name] = plan.path.read(id)
    if plan.query is not None:
        values[plan.query.name] = plan.query.read(_asked(scope["query_string"]))
    if plan.headers or plan.body is not None:
        headers = _headers(scope)
        for argument in plan.headers:
            if argument.header in headers:
                values[argument.name] = argument.read(headers[argument.header])
        if plan.body is not None and not is_json(headers.get("content-type", "")):
            raise NotDirect
    return values


def _asked(query: bytes) -> dict[str, str]:
    if not query:
        return {}
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    asked = dict(pairs)
    if len(asked) < len(pairs):
        raise NotDirect
    return asked


def _headers(scope: Scope) -> dict[str, str]:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    if len(headers) < len(scope["headers"]):  # the framework decides which of them counts
        raise NotDirect
    return headers


def _parsed(message: Message) -> Any:
    body = message.get("body", b"")
    if message["type"] != "http.request" or message.get("more_body", False) or not 0 < len(body) <= IN_LOOP:
        raise NotDirect
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise NotDirect from None


# -- what the routes say ----------------------------------------------------------------------------------------------


def _plans(app: FastAPI) -> Iterator[tuple[tuple[str, str], EndpointPlan]]:
    """Yield the plans of the routes that can be answered here, by method and path with `{id}`."""
    before: list[APIRoute] = []
    for route in app.routes:
        if not isinstance(route, APIRoute):
            continue
        plan = None if any(_overlap(route, other) for other in before) else _plan(route)
        if plan is not None:
            path = _PARAMETER.sub("{id}", route.path)
            yield from (((method, path), plan) for method in route.methods or ())
        before.append(route)


def _overlap(one: APIRoute, other: APIRoute) -> bool:
    """Return whether some request could match both routes, in which case the route that was declared first answers
    it."""
    mine, theirs = one.path.split("/"), other.path.split("/")
    if len(mine) != len(theirs) or set(one.methods or ()).isdisjoint(other.methods or ()):
        return False
    return all(here == there or "{" in here or "{" in there for here, there in zip(mine, theirs, strict=True))


def _plan(route: APIRoute) -> EndpointPlan | None:
    """Return the plan of a route; None for a route with anything that is not handled here, such as an asynchronous
    endpoint."""
    if not _is_simple(route):
        return None
    needs = route.dependant
    [path, query, body] = [
        _argument(fields[0]) if fields else None
        for fields in (needs.path_params, needs.query_params, needs.body_params)
    ]
    dependencies = {each.name: each.call for each in needs.dependencies if each.name is not None}
    return EndpointPlan(
        route.endpoint, dependencies, path, query, [_argument(each) for each in needs.header_params], body
    )


def _is_simple(route: APIRoute) -> bool:
    needs, hints = route.dependant, get_type_hints(route.endpoint)
    models = [*needs.query_params, *needs.body_params]
    fields = [*needs.path_params, *models, *needs.header_params]
    names = {*(each.name for each in fields), *(each.name for each in needs.dependencies)} - {None}
    places = [index for index, segment in enumerate(route.path.split("/")) if "{" in segment]
    return (
        not inspect.iscoroutinefunction(route.endpoint)
        and hints.get("return") is Response
        and {each.call for each in needs.dependencies} <= _KNOWN_DEPENDENCIES
        and names == {*inspect.signature(route.endpoint).parameters}
        and all(len(each) <= 1 for each in (needs.path_params, needs.query_params, needs.body_params))
        and all(_is_model(hints[each.name]) for each in models)
        and not any(each.field_info.is_required() for each in needs.header_params)
        and len(places) == len(_PARAMETER.findall(route.path))
        and places in ([], [_ID])
    )


def _argument(field: Any) -> EndpointArgument:
    return EndpointArgument(field.name, field.name.replace("_", "-"), field.validate)


def _is_model(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, BaseModel)
