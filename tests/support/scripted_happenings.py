"""The part of the scripted agent that answers requests about events, conditions and schedules that follow others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.scripted import Toolbox

YEAR = {"start": "2031-01-01"}


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _edit(toolbox: Toolbox, name: str, **changes: Any) -> dict[str, Any]:
    return toolbox.data("edit_schedule", {"schedule_id": name, **changes})


def _run(toolbox: Toolbox, name: str, **more: Any) -> dict[str, Any]:
    run: dict[str, Any] = toolbox.data("run_now", {"schedule_id": name, "wait_seconds": 30, **more})["run"]
    return run


def _end(toolbox: Toolbox, name: str, runs: int = 1) -> dict[str, Any]:
    """Return the latest run of a schedule once so many runs of it have ended."""
    latest: dict[str, Any] = {}

    def ended() -> bool:
        shown = toolbox.data("history", {"schedule_id": name})["runs"]
        latest.update(shown[0] if shown else {})
        return len(shown) == runs and "finished" in latest

    toolbox.until(ended)
    return latest


def _listeners(toolbox: Toolbox) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = toolbox.data("list_upcoming", {})["on_events"]
    return rows


def on_pushes(toolbox: Toolbox) -> str:
    toolbox.data("create_hook", {"name": "github", "scheme": "github"})
    when = "on github.push where ref = refs/heads/main at most every 10 minutes"
    request = {"prompt": "Review what was pushed", "name": "push review", "when": when}
    return "No" if "event_unknown" in toolbox.data("schedule", request)["warning_codes"] else "Yes"


def send_twice(toolbox: Toolbox) -> str:
    order = {"event": "shop.order", "data": {"number": 42}, "idempotency_key": "order-42"}
    sent = [toolbox.data("emit_event", order)["duplicate"] for _ in range(2)]
    assert sent == [False, True], sent
    return str(_end(toolbox, "orders", runs=2)["result"])


def which_events(toolbox: Toolbox) -> str:
    return ", ".join(sorted(each["name"] for each in toolbox.data("status", {})["events"]))


def another_event(toolbox: Toolbox) -> str:
    _edit(toolbox, "orders", when="on shop.paid")
    return str(sum("shop.order" in row["reads_as"] for row in _listeners(toolbox)))


def by_the_clock(toolbox: Toolbox) -> str:
    return _minute(_edit(toolbox, "review", when="every weekday at 9:00", options=YEAR)["next_run"])


def pause_a_listener(toolbox: Toolbox) -> str:
    toolbox.data("pause_schedule", {"schedule_id": "orders"})
    toolbox.data("emit_event", {"event": "shop.order", "data": {"number": 43}})
    return str(_end(toolbox, "orders", runs=2)["status"])


def what_comes_next(toolbox: Toolbox) -> str:
    shown = toolbox.data("list_upcoming", {})
    return f"{shown['upcoming'][0]['name']}, {len(shown['on_events'])}"


def after_success(toolbox: Toolbox) -> str:
    job = {"name": "check", "task": "echo", "args": ["checked {text}"], "when": "after backup succeeds"}
    toolbox.data("schedule_job", job)
    _run(toolbox, "backup")
    for name in ("upload", "cleanup"):
        _end(toolbox, name)
    return str(_end(toolbox, "check")["result"])


def after_failure(toolbox: Toolbox) -> str:
    notification = {"message": "The import failed: {error}", "notification_topic": "ops", "name": "import alarm"}
    toolbox.data("schedule_notification", {**notification, "when": "after invoice import fails"})
    _run(toolbox, "invoice import")
    return str(_end(toolbox, "import alarm")["result"]["message"])


def cancel_the_first(toolbox: Toolbox) -> str:
    request = {"action": "cancel", "ids": ["backup"], "expected_count": 1}
    [row] = toolbox.data("change_schedules", request)["schedules"]
    return ", ".join(sorted(row["followers"].split(": ")[1].split(", ")))


def close_a_circle(toolbox: Toolbox) -> str:
    return "No" if "error" in _edit(toolbox, "upload", when="after cleanup succeeds") else "Yes"


def if_a_page_changes(toolbox: Toolbox) -> str:
    options = {**YEAR, "only_if": "fetch('https://example.org/news') | changed()"}
    request = {"prompt": "Summarise what is new on the page", "name": "news", "when": "every hour", "options": options}
    return _minute(toolbox.data("schedule", request)["next_run"])


def if_a_build_fails(toolbox: Toolbox) -> str:
    condition = "fetch('https://ci.example.org/api') | field('build.state') | became('failed')"
    notification = {"message": "The build is red", "notification_topic": "team", "name": "red build"}
    times = {"when": "every 15 minutes", "options": {**YEAR, "only_if": condition}}
    toolbox.data("schedule_notification", {**notification, **times})
    return _minute(toolbox.data("list_upcoming", {})["upcoming"][0]["times"][1])


def tell_what_differs(toolbox: Toolbox) -> str:
    before = toolbox.data("job_status", {"job_id": "backup"})["next_run"]
    after = _edit(toolbox, "backup", options={"deliver_to": "family", "notify_on": "change"})["next_run"]
    return "Yes" if before == after else "No"


def run_all_the_same(toolbox: Toolbox) -> str:
    return str(_run(toolbox, "stock", force=True)["result"])


SCRIPTS: dict[str, Callable[[Toolbox], str]] = {
    "github.push": on_pushes,
    "order-42": send_twice,
    "Which events": which_events,
    "shop.paid": another_event,
    "no longer wait for pushes": by_the_clock,
    "the number 43": pause_a_listener,
    "fires first by the clock": what_comes_next,
    '"checked"': after_success,
    "import alarm": after_failure,
    "because they follow it": cancel_the_first,
    "instead of after the backup": close_a_circle,
    "example.org/news": if_a_page_changes,
    "ci.example.org": if_a_build_fails,
    "differs from the one": tell_what_differs,
    "although nothing has": run_all_the_same,
}
"""Keyed by words that only one question contains."""
