"""The actor of a change: who carried it out, and through which interface. It is stored with the text or the run."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from duetime.engine.value_class import NamedTuple

PERSON, TOKEN, RUN, MODULE, FILE = "person", "token", "run", "module", "file"
TASK_KEYS: Final = "duetime:task:"
"""Begins the idempotency keys of schedules that code declares; the module and the name of the task follow."""
FILE_KEYS: Final = "duetime-file:"
"""Begins the keys of schedules that a file declares; the name of the file and of the entry follow."""


class Actor(NamedTuple):
    """The person, token, run, module or file that carried out a change."""

    type: str
    """`person`, `token`, `run` (of an agent), `module` or `file`; empty if unknown, as for what older versions
    stored."""
    name: str
    """The subject of the person or token, the number of the run, or the name of the module or file."""
    interface: str
    """`cli`, `dashboard`, `rest`, `mcp`, `python`, `qstash-api`, `settings`; empty if unknown."""


UNKNOWN = Actor("", "", "")


@lru_cache(maxsize=1024)
def text_of(actor: Actor) -> str | None:
    """Return an actor as it is stored. The name comes last, because it may contain any character."""
    return f"{actor.type}/{actor.interface}/{actor.name}" if actor.type else None


def actor_from(text: str | None) -> Actor:
    type_, _, rest = (text or "").partition("/")
    interface, _, name = rest.partition("/")
    return Actor(type_, name, interface)


def actor_phrase(actor: Actor) -> str:
    """Return an actor as people read it, such as "ada (dashboard)"; "unknown" if nobody stored it."""
    prefix = {RUN: "an agent's run ", MODULE: "the module ", FILE: "the file "}.get(actor.type, "")
    words = f"{prefix}{actor.name}"
    return f"{words} ({actor.interface})" if words and actor.interface else words or "unknown"


def declared_by(key: str) -> Actor | None:
    """Return the module or file that declares the schedule with an idempotency key; None if none does."""
    if key.startswith(TASK_KEYS):
        return Actor(MODULE, key.removeprefix(TASK_KEYS).rpartition(":")[0], "")
    if key.startswith(FILE_KEYS):
        return Actor(FILE, key.removeprefix(FILE_KEYS).partition(":")[0], "")
    return None


def is_agents(author: str | None, depth: int) -> bool:
    """Return whether an agent's run wrote a text. The depth decides for what was stored without its author."""
    return actor_from(author).type == RUN if author else depth > 0
