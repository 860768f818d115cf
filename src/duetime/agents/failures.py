"""What went wrong between us and a model, in words that say what to do and hold no secret."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from duetime.agents.models import key_of
from duetime.core.masking import without_secrets
from duetime.core.results import clean_text

_SECRET_NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST_SECRET = 8


class Failure(NamedTuple):
    message: str
    permanent: bool = False
    after: float = 0.0
    """Seconds that the other side asked us to wait."""


class BeyondMeans(Exception):
    """The next answer of the model would be one too many; the text says by which limit."""


# From the special to the general. By name: the package that defines them is slow to import, or not there.
_KNOWN = (
    ("ModelAuthenticationError", "{model} refused the key ({said}); check the environment variable {key}", True),
    ("ModelNotFoundError", "{model} is not known to its maker ({said}); check `model` in the settings", True),
    ("ModelContextWindowExceededError", "this is too long for {model} ({said})", True),
    ("ModelRequestRejectedError", "{model} refused the request ({said})", True),
    ("ModelQuotaExceededError", "the quota of {model} is used up ({said}); look at the account", False),
    ("ModelRateLimitError", "{model} has no room just now ({said})", False),
    ("ModelUnavailableError", "{model} has no room just now ({said})", False),
    ("ModelTimeoutError", "{model} did not answer in time ({said})", False),
    ("ModelConnectionError", "{model} cannot be reached ({said}); check the network", False),
    ("ModelAPIError", "{model} failed ({said})", False),
    ("UserError", "{said}", True),
    ("AgentRunError", "{model} behaved unexpectedly ({said})", False),
)


def failure_of(error: BaseException, model: str) -> Failure:
    from pydantic_ai import exceptions

    cause = _root(error)
    said = masked(_said(cause))
    if isinstance(cause, BeyondMeans):
        return Failure(said, permanent=True)
    for name, words, permanent in _KNOWN:
        if isinstance(cause, getattr(exceptions, name)):
            message = words.format(model=model, said=said, key=key_of(model))
            return Failure(message, permanent, getattr(cause, "retry_after", None) or 0.0)
    return Failure(f"{type(cause).__name__}: {said}" if said else type(cause).__name__)


def masked(text: str, *secrets: str) -> str:
    """An error may quote the request it failed with, and with it the key that the request carried."""
    for secret in (*secrets, *_secrets_of_the_environment()):
        text = text.replace(secret, "***") if secret else text
    return clean_text(without_secrets(text))


def _secrets_of_the_environment() -> Iterator[str]:
    for name, value in os.environ.items():
        if name.upper().endswith(_SECRET_NAMES) and len(value) >= _SHORTEST_SECRET:
            yield value


def _root(error: BaseException) -> BaseException:
    """Tasks that run side by side fail as a group; the first of them says why."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(error: BaseException) -> str:
    """The maker's own words where there are some, without the JSON around them."""
    status = getattr(error, "status_code", None)
    words = _words(getattr(error, "body", None)) or str(error)
    return f"{status}: {words}" if status is not None else words


def _words(body: Any) -> str:
    while isinstance(body, dict):
        inner = body.get("error", body.get("message", ""))
        body = inner if inner != body else ""
    return body if isinstance(body, str) else ""
