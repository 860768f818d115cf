"""Conversations on disk: one private file for each, written whole or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.errors import InvalidInput
from duetime.security.private_files import make_private, read_private, replace_private

USUAL = "main"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Session(NamedTuple):
    name: str
    updated: Instant
    first: str
    """The first question."""
    messages: list[Any]


class Sessions:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def messages(self, name: str) -> list[Any]:
        found = self._read(name)
        return [] if found is None else found.messages

    def add(self, name: str, asked: str, messages: Sequence[Any], now: Instant) -> None:
        """Append to what is stored by now: a second terminal may be in the same conversation."""
        found = self._read(name)
        before = [] if found is None else found.messages
        first = asked if found is None else found.first
        document = {"updated": now, "first": first[:200], "messages": [*before, *messages]}
        make_private(self._folder)
        replace_private(self._path(name), json.dumps(document))

    def all(self) -> list[Session]:
        """Return all conversations, the latest first."""
        names = [path.stem for path in self._folder.glob("*.json") if _NAME.fullmatch(path.stem)]
        found = [session for name in names if (session := self._read(name)) is not None]
        return sorted(found, key=lambda session: session.updated, reverse=True)

    def new(self, day: str) -> str:
        """Return a name that no conversation has."""
        taken = {path.stem for path in self._folder.glob("*.json")}
        numbered = (f"{day}-{number}" for number in range(1, len(taken) + 2))
        return next(name for name in numbered if name not in taken)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            message = f"--session: {name[:60]!r} is no name; use letters, digits, dots, dashes and underscores"
            raise InvalidInput(message, field="session")
        return self._folder / f"{name}.json"

    def _read(self, name: str) -> Session | None:
        path = self._path(name)
        text = read_private(path)
        if text is None:
            return None
        try:
            kept = json.loads(text)
            return Session(name, Instant(int(kept["updated"])), str(kept["first"]), list(kept["messages"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path} holds no conversation; move it away, or choose another --session") from error
