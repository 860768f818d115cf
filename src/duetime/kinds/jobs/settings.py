"""Checks of the settings of executors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from duetime.settings import Settings
from duetime.settings.kind_settings import KindSettings


def _problems(settings: Settings) -> Iterator[tuple[str, str]]:
    for name, executor in settings.executors.items():
        from duetime.kinds.jobs.executors import types_of_executors  # few have executors

        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,39}", name):
            yield (
                "executors",
                f"executors.{name}: a name has letters, digits, - and _, at most 40, and begins with a letter",
            )
        if executor.type not in (types := types_of_executors()):
            yield "executors", f"executors.{name}.type must be one of: {', '.join(sorted(types))}"
        if not executor.address:
            yield "executors", f"executors.{name}.address: say where the cluster is, such as tcp://127.0.0.1:8786"
        if executor.limit < 1:
            yield "executors", f"executors.{name}.limit must be at least 1"


SETTINGS = KindSettings(_problems)
