"""The application below `/api`: its routes, error handlers and OpenAPI description."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from fastapi import FastAPI
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from duetime.http.auth import WebContext
from duetime.http.problems import API
from duetime.http.threads import RequestThreads
from duetime.rest import errors, events, hooks, info, runs, schedules
from duetime.rest.errors import PARTS
from duetime.rest.responses import Problem
from duetime.service.answers import ANSWERS
from duetime.service.kind_spec import KindSpec, load
from duetime.service.owner_limits import OwnerLimits

_ABOUT = (
    "Durable schedules for AI agents and programs. Every request carries a bearer token (`duetime token issue`); the "
    "dashboard's own pages use its cookie instead and, to change something, the header `X-CSRF-Token`. Anything of "
    "another owner is answered exactly like something that does not exist. Every error is a problem (RFC 9457)."
)


_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "For programs: `duetime token issue` makes one.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "duetime_session_8765",
        "description": "For the dashboard's own pages, after signing in; the name ends with the port.",
    },
    "proof": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": 'With the cookie, for every change; a page has it in `<meta name="csrf">`.',
    },
}


class Described(FastAPI):
    """Adds to the OpenAPI document what the framework does not know: the format of problems, and authentication."""

    def openapi(self) -> dict[str, Any]:
        described = super().openapi()
        components = described["components"]
        for answer in ANSWERS:
            for base in (each for each in answer.__bases__ if each in ANSWERS):
                schemas = components["schemas"]
                _describe_inherited(schemas[answer.__name__], schemas[base.__name__])
        components["schemas"]["Problem"] = Problem.model_json_schema()
        components["securitySchemes"] = _SCHEMES
        described["security"] = [{"token": []}, {"session": [], "proof": []}]
        for methods in described["paths"].values():
            if "get" in methods:
                methods["get"]["security"] = [{"token": []}, {"session": []}]
        return described


def _describe_inherited(schema: dict[str, Any], base: dict[str, Any]) -> None:
    """Copy descriptions of fields from the schema that this one extends: only a class's own source is read for them."""
    for name, field in base["properties"].items():
        if "description" in field:
            schema["properties"][name].setdefault("description", field["description"])


class Parts(NamedTuple):
    """What the endpoints use."""

    context: WebContext
    limits: OwnerLimits
    threads: RequestThreads


class Api:
    """Answers all requests below `/api` with the routes that the framework describes."""

    def __init__(self, described: FastAPI, context: WebContext, limits: OwnerLimits) -> None:
        self.routes = [route for route in described.routes if isinstance(route, Route)]
        self._by_shape: dict[tuple[str, int], list[Route]] = defaultdict(list)
        """The routes of a method and a number of slashes: no parameter of a path contains one."""
        for route in self.routes:
            for method in route.methods or ():
                self._by_shape[method, route.path.count("/")].append(route)
        self._parts = Parts(context, limits, RequestThreads())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"][len(API) :]
        for route in self._by_shape.get((scope["method"], path.count("/")), ()):
            match = route.path_regex.match(path)
            if match is not None:
                scope[PARTS], scope["path_params"] = self._parts, match.groupdict()
                try:
                    await route.app(scope, receive, send)
                except Exception:  # a response broke off: errors of an endpoint are answered by its route
                    errors.log.exception("%s %s failed", scope["method"], scope["path"])
                return
        allowed = {method for route in self.routes if route.path_regex.match(path) for method in route.methods or ()}
        await (errors.wrong_method(allowed) if allowed else errors.no_such_path())(scope, receive, send)


def describe(specs: Iterable[KindSpec], version: str) -> FastAPI:
    """Declare the routes of every kind, which are part of the OpenAPI document."""
    app = Described(
        title="Duetime",
        version=version,
        description=_ABOUT,
        openapi_url="/openapi.json",
        docs_url=None,  # its pages would load scripts from other sites
        redoc_url=None,
        servers=[{"url": API}],
        root_path_in_servers=False,
        redirect_slashes=False,
    )
    of_kinds = [load(spec.api) for spec in specs if spec.api]
    for part in (schedules.routes, runs.routes, hooks.routes, *of_kinds, info.times, info.standing, events.routes):
        app.router.routes += part.routes
    return app


def api_mount(context: WebContext, version: str, limits: OwnerLimits) -> Mount:
    return Mount(API, app=Api(describe(context.services.specs.values(), version), context, limits))
