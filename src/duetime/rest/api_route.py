"""The class of all routes of the API: it reads the arguments that a route declares, calls the endpoint, and answers
errors with problems.

FastAPI reads the declarations, builds the OpenAPI document from them and validates each argument. Its own resolution of
dependencies costs several times as much as the work of a request, so no request passes through it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from fastapi.dependencies.utils import request_params_to_args
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from duetime.http.bodies import IN_LOOP, parse_json
from duetime.http.connection_limits import OWNER
from duetime.http.threads import RequestThreads
from duetime.rest.errors import PARTS, response_to
from duetime.service.errors import refuse
from duetime.service.owner_limits import NOBODY

_NO_BODY = {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}


class ApiRoute(APIRoute):
    """A route whose endpoint returns a response. Its dependencies are plain functions of the request."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self._is_async = inspect.iscoroutinefunction(endpoint)
        self._dependencies = [(each.name, each.call) for each in self.dependant.dependencies if each.name and each.call]
        self.app = self._respond

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except Exception as error:
            response = response_to(request, error)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        threads: RequestThreads = request.scope[PARTS].threads
        body, errors = await self._read_body(request, threads)
        values = self._read_parameters(request)
        if values is None or errors:
            raise RequestValidationError([*self._parameter_errors(request), *errors])
        for name, dependency in self._dependencies:
            values[name] = dependency(request)
        if self.body_field is not None:
            values[self.body_field.name] = body
        response: Response
        if self._is_async:
            response = await self.endpoint(**values)
        else:
            response = await threads.run(partial(self.endpoint, **values))
        return response

    def _read_parameters(self, request: Request) -> dict[str, Any] | None:
        """Return the arguments in the path, the query and the headers; None if one of them is invalid."""
        values: dict[str, Any] = {}
        wrong = False
        for field in self.dependant.path_params:
            values[field.name], errors = field.validate(request.path_params[field.alias])
            wrong = wrong or bool(errors)
        for field in self.dependant.query_params:  # at most one, a model
            query = request.scope["query_string"]
            pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else ()
            values[field.name], errors = field.validate(dict(pairs))
            wrong = wrong or bool(errors)
        for field in self.dependant.header_params:
            if (value := request.headers.get(field.alias)) is not None:
                values[field.name], errors = field.validate(value)
                wrong = wrong or bool(errors)
        return None if wrong else values

    def _parameter_errors(self, request: Request) -> list[Any]:
        """Return what is wrong with these arguments, as the framework describes it. It reads each field of a model on
        its own, at several times the cost."""
        needs = self.dependant
        parameters = (needs.path_params, request.path_params), (needs.query_params, request.query_params)
        every = (*parameters, (needs.header_params, request.headers))
        return [error for fields, values in every for error in request_params_to_args(fields, values)[1]]

    async def _read_body(self, request: Request, threads: RequestThreads) -> tuple[Any, list[Any]]:
        """Return the model of the body, and what is wrong with it. A large body is parsed in a thread."""
        if self.body_field is None:
            return None, []
        content, body = request.headers.get("content-type", ""), await request.body()
        if content.partition(";")[0].strip().lower() != "application/json" and (content or body):
            raise refuse("not_json", "the body must be JSON: send the header Content-Type: application/json")
        read = partial(self._validate, body)
        if len(body) <= IN_LOOP:
            return read()
        if self._is_async:  # it has no slot of its owner yet
            model: tuple[Any, list[Any]] = await request.scope[PARTS].limits.run(request.scope.get(OWNER, NOBODY), read)
            return model
        return await threads.run(read)

    def _validate(self, body: bytes) -> tuple[Any, list[Any]]:
        assert self.body_field is not None, "this route has a body"
        if not body:
            return None, [_NO_BODY]
        try:
            value = parse_json(body)
        except ValueError:
            raise RequestValidationError([{"type": "json_invalid"}]) from None
        model, errors = self.body_field.validate(value, loc=("body",))
        return model, list(errors)
