"""HTTP error responses: problem details (RFC 9457) below `/api`, JSON-RPC at `/mcp`, short JSON elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import Scope

API = "/api"
MCP = "/mcp"
MEDIA_TYPE = "application/problem+json"
_MAX_SENTENCE_LENGTH = 1000


class ProblemResponse(JSONResponse):
    media_type = MEDIA_TYPE


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    """Return problem details. `code` is for programs, `detail` tells people what to do, `field` names the input."""
    view: dict[str, Any] = {
        "type": f"urn:duetime:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _sentence(detail),
        **({} if field is None else {"field": field}),
        **more,
    }
    return ProblemResponse(view, status, dict(headers or {}))


def refusal(
    scope: Scope, status: int, code: str, words: str, *, headers: Mapping[str, str] | None = None, **elsewhere: Any
) -> Response:
    """Return an error in the format of the path; outside the API, `elsewhere` replaces the default JSON body."""
    if is_api(scope["path"]):
        return problem(status, code, words, headers=headers)
    if scope["path"] == MCP and not elsewhere:  # the client of an agent shows the message
        elsewhere = rpc_error(-32000, words)
    return JSONResponse(elsewhere or {"error": words}, status, dict(headers or {}))


def rpc_error(code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}


def is_api(path: str) -> bool:
    return path == API or path.startswith(f"{API}/")


def _sentence(text: str) -> str:
    """Replace characters that cannot be encoded, which input may contain, and cut the text, because an error response
    must not fail."""
    sentence = text.encode("utf-8", "replace").decode("utf-8")
    return sentence if len(sentence) <= _MAX_SENTENCE_LENGTH else sentence[:_MAX_SENTENCE_LENGTH] + "..."
