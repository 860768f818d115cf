"""The call of a task on another machine: text both ways, so that nothing but this module has to be known there."""

from __future__ import annotations

import json
import threading
from typing import Any

from duetime.engine.outcome import Completed, Outcome
from duetime.kinds.jobs.context import ProcessFailed, TaskContext, outcome_of

NO_EVENTS = "a task that runs on a cluster cannot send events; return what is to be sent, and let a schedule follow it"


def text_of_call(task: Any, args: list[Any], kwargs: dict[str, Any], context: TaskContext) -> str:
    """Return the text with which another machine calls a task. Raises ProcessFailed if the arguments are too large."""
    from duetime.kinds.jobs.runners import description_of

    about, steps = description_of([(task, args, kwargs, True)], context, True)
    return f'{{"request": {json.dumps(about)}, "steps": {steps}}}'


def call(text: str) -> str:
    """Call a task, and return its result or how it failed. This function is what a cluster runs."""
    from duetime.kinds.jobs.process_child import answer_to

    content = json.loads(text)
    signals: dict[str, Any] = {"cancelled": threading.Event(), "progress": lambda text: None, "emit": _emit}
    return json.dumps(answer_to(content["request"], content["steps"], **signals))


def failure(error: str, trace: str | None = None) -> str:
    """Return the answer of a call that the cluster itself has failed to make."""
    return json.dumps({"error": error, "trace": trace})


def outcome_from(text: str) -> Outcome:
    """Return the outcome of a run from the text that the cluster answered."""
    from duetime.engine.encoding import json_object
    from duetime.kinds.jobs.runners import result_of

    try:
        result = result_of(json_object(text) or {})
    except ProcessFailed as error:
        return outcome_of(error)
    return Completed(None if result == "null" else result)


def _emit(event: str, data: Any = None, *, key: str | None = None) -> int | None:
    raise RuntimeError(NO_EVENTS)
