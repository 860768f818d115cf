"""Fewer messages between the processes that run tests together.

A process tells of each test that it begins and ends, and of its set-up, its call and its clean-up: six messages, which
take longer than most tests. Of a test that passes, its call says enough, unless times or names were asked for.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") or config.option.durations is not None or config.get_verbosity() > 0:
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            _shorten(plugin)


def _shorten(process: Any) -> None:
    send = process.sendevent

    def send_what_matters(name: str, **values: Any) -> None:
        if matters(name, values.get("data")):
            send(name, **values)

    process.sendevent = send_what_matters


def matters(name: str, report: dict[str, Any] | None) -> bool:
    """Return whether the process that collects all results has to hear of an event."""
    if name == "testreport" and report is not None:
        return bool(report["when"] == "call" or report["outcome"] != "passed")
    return name not in ("logstart", "logfinish")
