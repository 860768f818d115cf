"""Renders templates to responses with headers that isolate the page from other sites."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from duetime.dashboard.filters import FILTERS, took, visible
from duetime.dashboard.static_files import address
from duetime.http.middleware import LOOPBACK, host_name

FOLDER = Path(__file__).parent / "templates"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@lru_cache(maxsize=1)
def templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= FILTERS
    made.globals |= {"static": address, "took": took}
    return made


def render(scope: Scope, template: str, status: int = 200, **values: Any) -> Response:
    text = templates().get_template(template).render(values)
    return HTMLResponse(text, status, {**HEADERS, "Referrer-Policy": referrer_policy(scope)})


def referrer_policy(scope: Scope) -> str:
    """Return `no-referrer` where browsers send `Sec-Fetch-Site`, which tells whose form was sent. Over plain HTTP from
    another machine they do not, and without a referrer they send no Origin either: there, return `same-origin`."""
    own = host_name(Headers(scope=scope).get("host", "")) in LOOPBACK
    return "no-referrer" if own or is_https(scope) else "same-origin"


def is_https(scope: Scope) -> bool:
    """Check for HTTPS, here or at a proxy. Forging the header only yields a stricter page and an unusable cookie."""
    return scope["scheme"] == "https" or Headers(scope=scope).get("x-forwarded-proto", "") == "https"
