"""Schedules declared in code: `duetime worker --tasks declared_tasks.py`, and in another terminal: `duetime list`.

A worker that starts creates these schedules. After a change of this file, the next worker that starts changes them, and
cancels the one that is gone.
"""

from __future__ import annotations

from duetime import task


@task(when="every weekday at 8:30", timezone="Europe/Berlin", args=["Ann"], max_attempts=3)
def greet(name: str) -> str:
    """Greet someone."""
    return f"Good morning {name}"


@task(cron="0 3 * * *", timeout="10m", catch_up="skip")
def clean_up() -> None:
    """Delete expired carts."""


@task(every="1s", max_runs=3)
def count() -> str:
    """Show that it works: this one ends after three runs."""
    return "counted"
