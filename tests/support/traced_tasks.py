"""Tasks whose runs are traced: in threads, in a process, with spans, failures and events of their own."""

from __future__ import annotations

import os

from opentelemetry import trace

from duetime import RetryLater, TaskContext
from duetime.kinds.jobs.registry import Registry

REGISTRY = Registry()
_TRIED: list[str] = []


@REGISTRY.task
def greet(name: str) -> str:
    with trace.get_tracer("mine").start_as_current_span("my own"):
        return name


@REGISTRY.task
async def greet_later(name: str) -> str:
    return greet(name)


@REGISTRY.task
def stumble(name: str) -> str:
    """Fail the first time."""
    _TRIED.append(name)
    if len(_TRIED) == 1:
        raise RetryLater(0, name)
    return name


@REGISTRY.task
def fall(name: str) -> None:
    raise ValueError(name)


@REGISTRY.task
def dawdle(context: TaskContext) -> None:
    context.cancelled.wait(30)


@REGISTRY.task(isolation="process")
def look_around() -> str | None:
    return os.environ.get("TRACEPARENT")


@REGISTRY.task
def report(context: TaskContext, name: str) -> None:
    context.emit("agent.reported", {"name": name})
