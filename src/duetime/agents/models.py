"""Which model a built-in agent thinks with, and what is missing where there is none."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from duetime.core.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic_ai.models import Model

NO_EXTRA = 'the built-in agents need further packages; run: pip install "duetime[agent]"'
EXAMPLE = "anthropic:claude-sonnet-5-5"
NO_MODEL = (
    f'no model is set: put `model = "{EXAMPLE}"` at the top of duetime.toml and its key into the '
    "environment variable ANTHROPIC_API_KEY (OPENAI_API_KEY for openai:..., GEMINI_API_KEY for google:...)"
)
_VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]+)` environment variable")


def model_named(name: str) -> Model:
    """Raises InvalidInput, which says exactly what to set. The packages are slow to import, so they come late."""
    if not name:
        raise InvalidInput(NO_MODEL, field="model")
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # nobody asked for an advertisement in a log
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as error:
        raise InvalidInput(NO_EXTRA, field="model") from error
    try:
        return infer_model(_with_maker(name))
    except UserError as error:
        raise InvalidInput(_missing(name, error.message), field="model") from error
    except ImportError as error:
        raise InvalidInput(f"model: {name} cannot be used here: {error}", field="model") from error


def _with_maker(name: str) -> str:
    """A bare word may name a model made for tests, which calls every tool it sees."""
    if ":" not in name:
        raise InvalidInput(_missing(name, ""), field="model")
    return name


def _missing(name: str, reason: str) -> str:
    variable = _VARIABLE.search(reason)
    if variable is not None:
        return f"model: {name} needs its key: set the environment variable {variable[1]} where Duetime runs"
    hint = reason.partition("Did you mean ")[2]
    meant = f"did you mean {hint}" if hint else f"write it as maker:model, such as {EXAMPLE}"
    return f"model: {name[:100]} is not known; {meant}"


def key_of(name: str) -> str:
    """Where the key of a model is expected, in words."""
    maker = name.partition(":")[0]
    known = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "google": "GEMINI_API_KEY"}
    return known.get(maker.partition("-")[0], "its API key")
