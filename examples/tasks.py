"""Tasks for a worker: `duetime worker --tasks tasks.py --live`, and in another terminal:

duetime job add greeting --task greet --arg Ann --when "every weekday at 8:30" --tasks tasks.py
duetime run greeting --wait 10
"""

from __future__ import annotations

import os
from pathlib import Path

from duetime import PermanentError, RetryLater, TaskContext, task


@task
def greet(name: str, greeting: str = "Hello") -> str:
    """Greet someone."""  # agents read this to choose a task
    return f"{greeting} {name}"


@task(name="files.count")
def count_files(folder: str, context: TaskContext) -> int:
    """Count the files below a folder."""
    if not Path(folder).is_dir():
        raise PermanentError(f"there is no folder {folder}")  # retrying would not help
    total = 0
    for place, _, files in os.walk(folder):
        if context.cancelled.is_set():
            raise RetryLater(60)  # the worker is shutting down, or the run was cancelled
        total += len(files)
        context.progress(f"{total} files, now in {place}")
    return total


@task(isolation="process")
def factorial(number: int) -> int:
    """Compute a factorial, in a process that is killed on timeout."""
    result = 1
    for factor in range(2, number + 1):
        result *= factor
    return result
