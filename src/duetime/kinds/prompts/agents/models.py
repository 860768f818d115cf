"""The models of built-in agents: finds one by name, and explains what is missing or went wrong."""

from __future__ import annotations

import os
import re
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from duetime.engine.errors import InvalidInput
from duetime.security.redaction import Secrets

if TYPE_CHECKING:
    from pydantic_ai.models import Model


NO_EXTRA = 'the built-in agents need further packages; run: pip install "duetime[agent]"'
EXAMPLE = "anthropic:claude-sonnet-5-5"
NO_MODEL = (
    f'no model is set: put `model = "{EXAMPLE}"` at the top of duetime.toml and its key into the '
    "environment variable ANTHROPIC_API_KEY (OPENAI_API_KEY for openai:..., GEMINI_API_KEY for google:...)"
)
_importing = threading.Lock()
_VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]+)` environment variable")


def model_named(name: str) -> Model:
    """Return a model. Raises InvalidInput, which says exactly what to set. Slow packages are imported only when
    needed."""
    if not name:
        raise InvalidInput(NO_MODEL, field="model")
    if ":" not in name:  # refused, as it may be the name of a test model, which calls every tool it sees
        raise InvalidInput(_missing(name, ""), field="model")
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # keeps an advertisement out of the log
    try:
        with _importing:  # its modules import each other, so a second thread could find them half loaded
            from pydantic_ai.exceptions import UserError
            from pydantic_ai.models import infer_model
    except ImportError as error:
        raise InvalidInput(NO_EXTRA, field="model") from error
    try:
        return infer_model(name)
    except UserError as error:
        raise InvalidInput(_missing(name, error.message), field="model") from error
    except ImportError as error:
        raise InvalidInput(field="model", problem=f"{name} cannot be used here: {error}") from error


def _missing(name: str, reason: str) -> str:
    variable = _VARIABLE.search(reason)
    if variable is not None:
        return f"model: {name} needs its key: set the environment variable {variable[1]} where Duetime runs"
    hint = reason.partition("Did you mean ")[2]
    advice = f"did you mean {hint}" if hint else f"write it as maker:model, such as {EXAMPLE}"
    return f"model: {name[:100]} is not known; {advice}"


_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
"""Variables of which one contains the key, by maker. Other makers have further ways to sign in."""


def key_of(name: str) -> str:
    """Return the environment variable that holds a model's key, or a general phrase if it is not known."""
    return _KEYS.get(name.partition(":")[0].partition("-")[0], ("its API key",))[0]


def missing_for(name: str) -> str | None:
    """Return what a model lacks, as far as that is known without loading anything slow; None if nothing."""
    if find_spec("pydantic_ai") is None:
        return NO_EXTRA
    if not name:
        return f'no model is set: put `model = "{EXAMPLE}"` into the settings'
    keys = _KEYS.get(name.partition(":")[0], ())
    if keys and not any(os.environ.get(each) for each in keys):
        return f"the model {name} needs its key in the environment variable {keys[0]}"
    return None


class ModelFailure(NamedTuple):
    """A failure of a model; the message says what to do and contains no secret."""

    message: str
    permanent: bool = False
    after: float = 0.0
    """Seconds that the provider asked us to wait."""


class LimitExceeded(Exception):
    """A limit does not allow another response of the model; the message says which limit."""


# Most specific first. By name, because the package that defines them is slow to import, or not installed.
_KNOWN = (
    ("ModelAuthenticationError", "{model} refused the key ({said}); check the environment variable {key}", True),
    ("ModelNotFoundError", "{model} is not known to its maker ({said}); check `model` in the settings", True),
    ("ModelContextWindowExceededError", "this is too long for {model} ({said})", True),
    ("ModelRequestRejectedError", "{model} refused the request ({said})", True),
    ("ModelQuotaExceededError", "the quota of {model} is used up ({said}); look at the account", False),
    ("ModelRateLimitError", "{model} is overloaded ({said})", False),
    ("ModelUnavailableError", "{model} is overloaded ({said})", False),
    ("ModelTimeoutError", "{model} did not answer in time ({said})", False),
    ("ModelConnectionError", "{model} cannot be reached ({said}); check the network", False),
    ("ModelAPIError", "{model} failed ({said})", False),
    ("UserError", "{said}", True),
    ("AgentRunError", "{model} behaved unexpectedly ({said})", False),
)


def failure_of(error: BaseException, model: str) -> ModelFailure:
    from pydantic_ai import exceptions

    cause = error
    # concurrent tasks fail as a group, and the first error gives the reason
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    reason = masked(_provider_message(cause))
    if isinstance(cause, LimitExceeded):
        return ModelFailure(reason, permanent=True)
    for name, words, permanent in _KNOWN:
        if isinstance(cause, getattr(exceptions, name)):
            message = words.format(model=model, said=reason, key=key_of(model))
            return ModelFailure(message, permanent, getattr(cause, "retry_after", None) or 0.0)
    return ModelFailure(f"{type(cause).__name__}: {reason}" if reason else type(cause).__name__)


def masked(text: str, token: str = "") -> str:
    """Redact secrets, because an error may quote the failed request with its key."""
    return Secrets(token, os.environ).in_short(text)


def _provider_message(error: BaseException) -> str:
    """Return the provider's own message if there is one, without the JSON around it."""
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    while isinstance(body, dict):
        inner = body.get("error", body.get("message", ""))
        body = inner if inner != body else ""
    words = body if isinstance(body, str) and body else str(error)
    return f"{status}: {words}" if status is not None else words
