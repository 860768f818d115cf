"""Settings that the server publishes in the store, so that other processes on the store interpret times, agents and
channels in the same way.

They are the time zone, the address of the server, and the names and types that each kind publishes
(`KindHooks.published_settings`). They contain no secrets of the settings, no other addresses and no commands: a process
that reads them can name an agent or a channel, but use only what is in its own settings. `duetime serve` writes them
when it starts, and removes its address when it stops; the latest server takes precedence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from duetime.engine.errors import DuetimeError
from duetime.engine.times.zones import known_zone
from duetime.engine.value_class import NamedTuple
from duetime.settings import Settings

DIFFER, CHANGED = "settings_differ", "settings_changed"
LONGEST = 120
"""Maximum characters of a warning."""


class Published(NamedTuple):
    zone: str
    kinds: Mapping[str, Mapping[str, Any]]
    """What each kind published, by the name of the kind."""
    file: str
    """Identifies the settings file that the server read by a hash of its machine and path; empty if there was none."""
    changed: int
    """When that file was last written, in nanoseconds."""
    url: str = ""
    """Address of the server for clients on its machine; empty once it has stopped."""
    key: str = ""
    """Random key with which every server on this store proves that it reads the store: see `http.probe`. Each server
    that starts publishes a new one, so that a copy of the store has a different key."""

    def is_older_than(self, settings: Settings) -> bool:
        """Return whether the server read the same file as this process, but before it was changed."""
        mark, changed = _file(settings)
        return bool(mark) and mark == self.file and changed != self.changed


def publication(settings: Settings, zone: str, kinds: Mapping[str, Mapping[str, Any]], url: str = "") -> str:
    """Return what a server publishes, as JSON."""
    return json.dumps(Published(zone, kinds, *_file(settings), url, os.urandom(32).hex())._asdict())


def without_address(publication: str) -> str:
    """Return the same publication for a server that has stopped. Other servers on the store still need its key."""
    return json.dumps(json.loads(publication) | {"url": ""})


def read_publication(text: str | None) -> Published | None:
    """Return what a server published; None if there is nothing that this version understands."""
    try:
        values = json.loads(text or "null")  # a newer version may publish more
        published = Published(**{name: values[name] for name in Published._fields if name in values})
        known_zone(published.zone)
        usable = all(isinstance(each, Mapping) for each in (published.kinds, *published.kinds.values()))
    except (TypeError, ValueError, AttributeError, DuetimeError):
        return None
    return published if usable else None


def _file(settings: Settings) -> tuple[str, int]:
    import hashlib  # not needed where nothing is published
    import platform

    file = settings.origin.file
    try:
        changed = Path(file).stat().st_mtime_ns if file else 0
    except OSError:
        changed = 0
    return hashlib.sha256(f"{platform.node()}\0{file}".encode()).hexdigest()[:32] if file else "", changed


def differences(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return a warning, as code and text, that these settings are taken from the server; nothing if there are no
    differences."""
    if not names:
        return []
    text = f"Settings of this process differ from the server's, which are used: {', '.join(names)}."
    return [(DIFFER, text if len(text) <= LONGEST else f"{text[: LONGEST - 2]}….")]


SERVER_IS_OLDER = (CHANGED, "The settings file has changed since the server read it: restart `duetime serve`.")
