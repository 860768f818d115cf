"""Renders templates to responses with headers that isolate the page from other sites, serves static files, and renders
Markdown."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from duetime.dashboard.filters import FILTERS, kind_class, kind_icon, took, visible
from duetime.dashboard.preferences import choices_in
from duetime.http.middleware import LOOPBACK, host_name
from duetime.service.kind_spec import known_specs

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


FOLDER = Path(__file__).parent / "templates"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin"}
"""Headers that pages need in addition to those that the middleware adds to every response."""


class KindTemplates(dict[str, BaseLoader]):
    """The folders `templates` of the kinds that have a form or pages, by the name of the kind, found on first use."""

    def __missing__(self, kind: str) -> BaseLoader:
        spec = known_specs()[kind]
        module = find_spec((spec.form or spec.pages).partition(":")[0])
        if module is None or module.origin is None:
            raise KeyError(kind)
        self[kind] = FileSystemLoader(Path(module.origin).parent / "templates")
        return self[kind]


@lru_cache(maxsize=1)
def templates() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([FileSystemLoader(FOLDER), PrefixLoader(KindTemplates())]),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**FILTERS, "markdown": markdown}
    environment.globals |= {"static": static_address, "took": took, "kind_class": kind_class, "kind_icon": kind_icon}
    return environment


def render(scope: Scope, template: str, status: int = 200, **values: Any) -> Response:
    text = templates().get_template(template).render({**choices_in(scope), **values})
    return HTMLResponse(text, status, {**HEADERS, "Referrer-Policy": referrer_policy(scope)})


def referrer_policy(scope: Scope) -> str:
    """Return `no-referrer` where browsers send `Sec-Fetch-Site`, which identifies the origin of a form. Over plain HTTP
    from another machine they do not send it, and without a referrer they send no Origin either; for those, return
    `same-origin`."""
    own = host_name(Headers(scope=scope).get("host", "")) in LOOPBACK
    return "no-referrer" if own or is_https(scope) else "same-origin"


def is_https(scope: Scope) -> bool:
    """Return whether the request uses HTTPS, here or at a proxy. Forging the header only yields a stricter page and an
    unusable cookie."""
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


# Markdown that agents wrote: no HTML, no images, and links only to the web and to mail addresses.

LONGEST: Final = 8_000
"""Characters of a text that is rendered; a longer one is shown as it is."""
SCHEMES: Final = ("http://", "https://", "mailto:")


def markdown(value: object) -> Markup:
    """Render a text as HTML whose only active parts are links."""
    text = visible(str(value))
    if len(text) > LONGEST:
        return Markup('<div class="plain-text">{}</div>').format(text)
    try:
        tokens = _renderer().parse(text)
        _adapt(tokens)
        html: str = _renderer().renderer.render(tokens, _renderer().options, {})
    except (RecursionError, ValueError):
        return Markup('<div class="plain-text">{}</div>').format(text)
    return Markup(html)  # noqa: S704 - the renderer escapes every text


@lru_cache(maxsize=1)
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt  # takes longer to import than most pages take to render

    # Tables stay off: a short text can ask for thousands of empty cells.
    renderer = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("strikethrough")
    renderer.disable(["image", "html_block", "html_inline"])
    renderer.validateLink = _is_safe  # type: ignore[method-assign]
    return renderer


def _is_safe(url: str) -> bool:
    return url.strip().lower().startswith(SCHEMES)


def _adapt(tokens: Sequence[Token]) -> None:
    """Keep headings out of the page's outline, set `rel` on links, and drop styles, which the page's policy forbids."""
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
            if token.nesting == 1:
                token.attrSet("class", "md-heading")
        elif token.type == "link_open":
            token.attrs = {"href": str(token.attrGet("href")), "rel": "noopener noreferrer nofollow"}
        elif token.type == "fence":
            token.info = ""
        token.attrs.pop("style", None)
        if token.children:
            _adapt(token.children)
