"""Tasks of our own that need more than their arguments: the network, by the guarded way."""

from __future__ import annotations

from duetime.kinds.registry import Task
from duetime.settings import Settings
from duetime.wiring.fetching import fetch


def fetch_task(settings: Settings) -> Task:
    """In a process of its own: what strangers put into a page holds nobody up, and its timeout ends it."""
    constants = {"allowed_hosts": list(settings.allowed_hosts)}
    return Task(fetch, isolation="process", portable=True, constants=constants)
