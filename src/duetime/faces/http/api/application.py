"""The application below `/api`: its routes, its refusals and its description."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute, Mount

from duetime.faces.http.api import events, refusing, runs, schedules, standing, times
from duetime.faces.http.api.doors import House
from duetime.faces.http.api.refusing import Unexpected
from duetime.faces.http.api.shapes import Problem
from duetime.faces.http.problems import API

_ABOUT = (
    "Durable schedules for AI agents and programs. Every request carries a bearer token (`duetime token issue`); what "
    "belongs to another owner is answered exactly as what does not exist. Every refusal is a problem (RFC 9457)."
)


class Described(FastAPI):
    """Also says what the framework does not know: the form of problems, and that everything needs a token."""

    def openapi(self) -> dict[str, Any]:
        described = super().openapi()
        components = described["components"]
        components["schemas"]["Problem"] = Problem.model_json_schema()
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}
        described["security"] = [{"token": []}]
        return described


def api(house: House, version: str) -> FastAPI:
    app = Described(
        title="Duetime",
        version=version,
        description=_ABOUT,
        openapi_url="/openapi.json",
        docs_url=None,  # its pages would load scripts from elsewhere
        redoc_url=None,
        servers=[{"url": API}],
        root_path_in_servers=False,
        redirect_slashes=False,
    )
    app.state.house = house
    app.state.streams = events.Streams()
    for part in (schedules, runs, times, standing, events):
        app.router.routes += part.routes.routes
    refusing.join(app)
    return app


def api_routes(house: House, version: str) -> list[BaseRoute]:
    mount = Mount(API, app=Unexpected(api(house, version)))
    # As it stands, its pattern ends at a line break: such a path would be answered by whoever comes next.
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return [mount]
