"""The JSON formats of the model providers, and which of them a path belongs to."""

from __future__ import annotations

from typing import Any

from tests.support.model_anthropic import Anthropic
from tests.support.model_gemini import Gemini
from tests.support.model_openai import OpenAIChat, OpenAIResponses
from tests.support.model_wire import Dialect

DIALECTS: tuple[Dialect, ...] = (Anthropic(), OpenAIChat(), OpenAIResponses(), Gemini())


def dialect_for(path: str) -> Dialect | None:
    """Return the dialect for a path; base URLs are given with, without and with another version."""
    end = "/" + path.removeprefix("/v1beta/").removeprefix("/v1/").removeprefix("/")
    return next((dialect for dialect in DIALECTS if end.startswith(dialect.path)), None)


def error_body(api: str, status: int, message: str) -> dict[str, Any]:
    """Return the body of an error in the format of each provider."""
    match api:
        case "anthropic":
            kinds = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
            kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
            return {"type": "error", "error": {"type": kind, "message": message}}
        case "gemini":
            return {"error": {"code": status, "message": message, "status": "ERROR"}}
        case _:
            return {"error": {"message": message, "type": "error", "code": str(status)}}
