"""Reads the schedule that the decorator of a task declares: `@task(when="every weekday at 8:30")`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from duetime.engine.actor import TASK_KEYS
from duetime.engine.errors import InvalidInput
from duetime.engine.policy.options import make_policy
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.arguments import as_json
from duetime.kinds.jobs.loading import FILE_PREFIX
from duetime.service.operations.declaration import is_naive, with_offset
from duetime.service.when import LIMITS, WAYS, read_policy, read_times

PREFIX: Final = TASK_KEYS
MAX_MODULE_LENGTH: Final = 80
_TIMES: Final = frozenset((*WAYS, *LIMITS, "jitter", "timezone"))
_TEXTS: Final = ("when", "at", "cron", "rrule", "on", "after", *LIMITS, "timezone")


def read_declaration(task: str, module: str, args: object, kwargs: object, options: Mapping[str, Any]) -> NewSchedule:
    """Return the schedule that a decorator declares. Raise InvalidInput for options that cannot be read."""
    times = {name: value for name, value in options.items() if name in _TIMES}
    for name in ("at", *LIMITS):
        if isinstance(time := times.get(name), datetime):
            if is_naive(time) and time.fold and times.get("timezone") is None:
                raise InvalidInput(field=name, problem="needs timezone beside it, because fold=1 depends on the zone")
            times[name] = with_offset(time, times.get("timezone", "")).isoformat()
    for name in _TEXTS:
        if not isinstance(times.get(name), str | None):
            raise InvalidInput(field=name, problem=f"must be a text, not {type(times[name]).__name__}")
    policy = read_policy({name: each for name, each in options.items() if name not in _TIMES and each is not None})
    make_policy(policy)
    when = read_times(times)
    if isinstance(args, str | bytes):
        raise InvalidInput(field="args", problem=f"must be a list of arguments, such as [{args!r:.60}]")
    arguments = as_json("args", list(args) if isinstance(args, Sequence) else args, list)
    named = as_json("kwargs", dict(kwargs) if isinstance(kwargs, Mapping) else kwargs, dict)
    payload = {"task": task, "args": arguments, "kwargs": named}
    key = f"{PREFIX}{module_name(module)}:{task}"
    return NewSchedule("job", task, when.type, when.config, payload, policy, when.timezone, key)


def module_name(name: str) -> str:
    """Return a name for a module that is the same on every machine: that of its file, if it was loaded by its path."""
    module = sys.modules.get(name)
    if name == "__main__" and (spec := getattr(module, "__spec__", None)) is not None:
        name = spec.name
    elif name == "__main__" or name.startswith(FILE_PREFIX):
        name = Path(getattr(module, "__file__", None) or name).stem
    return name[:MAX_MODULE_LENGTH]
