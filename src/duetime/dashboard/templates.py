"""Renders templates to responses with headers that isolate the page from other sites, and serves static files."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from duetime.dashboard.filters import FILTERS, kind_class, took, visible
from duetime.dashboard.markdown import markdown
from duetime.dashboard.preferences import theme_of
from duetime.http.middleware import LOOPBACK, host_name
from duetime.service.kind_spec import known_specs

FOLDER = Path(__file__).parent / "templates"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""What pages need beyond the headers that the middleware gives to every response."""


class KindTemplates(dict[str, BaseLoader]):
    """The folders `templates` of the kinds that have a form or pages, by the name of the kind, found on first use."""

    def __missing__(self, kind: str) -> BaseLoader:
        spec = known_specs()[kind]
        found = find_spec((spec.form or spec.pages).partition(":")[0])
        if found is None or found.origin is None:
            raise KeyError(kind)
        self[kind] = FileSystemLoader(Path(found.origin).parent / "templates")
        return self[kind]


@lru_cache(maxsize=1)
def templates() -> Environment:
    made = Environment(
        loader=ChoiceLoader([FileSystemLoader(FOLDER), PrefixLoader(KindTemplates())]),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {**FILTERS, "markdown": markdown}
    made.globals |= {"static": static_address, "took": took, "kind_class": kind_class}
    return made


def render(scope: Scope, template: str, status: int = 200, **values: Any) -> Response:
    text = templates().get_template(template).render({"theme": theme_of(scope), **values})
    return HTMLResponse(text, status, {**HEADERS, "Referrer-Policy": referrer_policy(scope)})


def referrer_policy(scope: Scope) -> str:
    """Return `no-referrer` where browsers send `Sec-Fetch-Site`, which tells whose form was sent. Over plain HTTP from
    another machine they do not, and without a referrer they send no Origin either: there, return `same-origin`."""
    own = host_name(Headers(scope=scope).get("host", "")) in LOOPBACK
    return "no-referrer" if own or is_https(scope) else "same-origin"


def is_https(scope: Scope) -> bool:
    """Check for HTTPS, here or at a proxy. Forging the header only yields a stricter page and an unusable cookie."""
    return scope["scheme"] == "https" or Headers(scope=scope).get("x-forwarded-proto", "") == "https"


STATIC_FOLDER = Path(__file__).parent / "static"
TYPES = {"duetime.css": "text/css", "duetime.js": "text/javascript", "icon.svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"


@lru_cache(maxsize=len(TYPES))
def read_static(name: str) -> tuple[bytes, str]:
    """Return the content of a file, and the version of that content."""
    body = (STATIC_FOLDER / name).read_bytes()
    return body, hashlib.sha256(body).hexdigest()[:12]


def static_address(name: str) -> str:
    """Return the URL with the version of the file, so that browsers may cache it forever."""
    return f"/static/{name}?v={read_static(name)[1]}"


async def serve_static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in TYPES:
        return Response("There is no such file.", 404, media_type="text/plain")
    body, version = read_static(name)
    headers = {
        "Cache-Control": FOREVER if request.query_params.get("v") == version else "no-cache",
        "Content-Security-Policy": "default-src 'none'",
    }
    return Response(body, media_type=TYPES[name], headers=headers)
