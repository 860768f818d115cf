"""The task of experiments. It logs its own side effects, each line on disk before it goes on."""

from __future__ import annotations

import json
import os
import time
from functools import cache

from duetime import TaskContext, task

EFFECTS = "SCORECARD_EFFECTS"
"""The environment variable with the path of the log."""


def _say(verb: str, context: TaskContext) -> None:
    """Append one line with one write: lines of several processes never mix."""
    due = round(context.due.timestamp() * 1_000_000)
    line = (verb, context.job_id, due, context.run_id, context.attempt, os.getpid(), time.time_ns() // 1000)
    file = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
        os.fdatasync(file)
    finally:
        os.close(file)


@task
def effect(context: TaskContext, work: float = 0.0, fails: int = 0) -> None:
    """Work for a while; fail at the first attempts, as often as it is asked to."""
    _say("begin", context)
    if work and context.cancelled.wait(work):
        _say("stopped", context)
        raise RuntimeError("told to stop")
    if context.attempt <= fails:
        _say("failed", context)
        raise RuntimeError("as asked")
    _say("completed", context)


@task(isolation="process")
def effect_apart(context: TaskContext, work: float = 0.0, fails: int = 0) -> None:
    """Do the same in a process of its own."""
    effect(context, work, fails)


@task
def stamp(context: TaskContext) -> None:
    """Say that it began, as cheaply as possible: for a hundred thousand at once."""
    os.write(_stamps(), f"{context.run_id} {context.job_id} {time.time_ns() // 1000}\n".encode())


@cache
def _stamps() -> int:
    return os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@task
def hold(context: TaskContext, seconds: float) -> None:
    """Take long at the first attempt, and no time at any later one."""
    effect(context, work=seconds if context.attempt == 1 else 0.0)


@task(isolation="process")
def hold_apart(context: TaskContext, seconds: float) -> None:
    """Do the same in a process of its own."""
    effect(context, work=seconds if context.attempt == 1 else 0.0)
