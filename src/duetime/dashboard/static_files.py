"""The stylesheet, the script and the icon: three files that are read once."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent / "static"
TYPES = {"duetime.css": "text/css", "duetime.js": "text/javascript", "icon.svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"


class Static(NamedTuple):
    body: bytes
    version: str


@lru_cache(maxsize=len(TYPES))
def read(name: str) -> Static:
    body = (FOLDER / name).read_bytes()
    return Static(body, hashlib.sha256(body).hexdigest()[:12])


def address(name: str) -> str:
    """Return the URL with the version of the file, so that browsers may cache it forever."""
    return f"/static/{name}?v={read(name).version}"


async def serve(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in TYPES:
        return Response("There is no such file.", 404, media_type="text/plain")
    kept = FOREVER if request.query_params.get("v") == read(name).version else "no-cache"
    headers = {
        "Cache-Control": kept,
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'",
    }
    return Response(read(name).body, media_type=TYPES[name], headers=headers)
