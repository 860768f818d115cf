"""The page of the Python API, from its signatures, types and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from duetime import (
    Conflict,
    DuetimeError,
    InvalidInput,
    LimitReached,
    NotFound,
    PermanentError,
    Refused,
    Registry,
    RetryLater,
    Simulation,
    StoreUnavailable,
    TaskContext,
    task,
)
from duetime.api import NotStartedWarning, Schedule, ScheduledTask, types
from duetime.api.asynchronous import AsyncDuetime
from duetime.api.base import Base
from duetime.api.create import Creating
from duetime.api.duetime import Duetime
from duetime.api.manage import Managing, Overview
from duetime.api.prompts import Prompting
from duetime.api.runs import DeadLetters, DeadLettersMethods, Inbox, InboxMethods, Running
from duetime.api.values import OneScheduleMethods, ScheduleMethods, ScheduleValue
from duetime.service import answers, options
from duetime.service.operations.change_many import BulkChange
from duetime.testing import SettableClock
from reference.docstrings import base_names, class_docs, declared_types, field_docs, name_docs, own_fields
from reference.markdown import code, page, table

_ABOUT = """\
Everything that a program needs can be imported from `duetime`. [Use Duetime from
Python](../how-to/use-from-python.md) has examples, [write tasks](../how-to/write-tasks.md) explains tasks, and [test
your schedules](../how-to/test-your-schedules.md) the simulation. Settings are described in [settings](settings.md).

Results are frozen values with the attributes listed below, in which times are `datetime`s with a time zone. `as_dict()`
returns each of them as plain data for JSON, in which times are ISO 8601 texts with an offset."""
_GROUPS: dict[str, tuple[type, ...]] = {
    "Start and stop": (Duetime, Base),
    "Create": (Duetime, Creating),
    "Find and change": (Duetime, Managing, ScheduleMethods),
    "What a schedule can do": (Schedule, OneScheduleMethods, ScheduleMethods),
    "Runs": (Duetime, Running),
    "Inbox": (Inbox, InboxMethods),
    "Dead letters": (DeadLetters, DeadLettersMethods),
    "Overview": (Duetime, Overview),
    "Prompts": (Duetime, Prompting),
}
"""Sections of the page: a class, and those among its bases whose methods the section describes."""
_PREFIXES = {Schedule: "schedule.", Inbox: "duetime.inbox.", DeadLetters: "duetime.dead_letters."}
"""What the methods of objects other than `Duetime` are called on."""
_OPTIONS = (types.ScheduleOptions, options.TimeOptions, options.PolicyOptions, types.EditOptions, types.Allow)
_RESULTS = (
    ScheduleValue,
    answers.Created,
    answers.Schedule,
    BulkChange,
    answers.Preview,
    answers.PreviewedTime,
    answers.Upcoming,
    answers.Occurrence,
    types.RunList,
    answers.Run,
    types.RunReport,
    answers.RunDetails,
    answers.EarlierAttempt,
    types.Delivery,
    answers.RunLog,
    answers.LogLines,
    answers.EmittedEvent,
    answers.Incident,
    answers.Message,
    types.TakenPrompt,
    ScheduledTask,
    answers.ServerStatus,
    answers.WorkerState,
)
_ALIASES = ("Time", "Duration", "Id")
_LINKED = re.compile(rf"\b({'|'.join(each.__name__ for each in (*_OPTIONS, *_RESULTS))})\b")


def python_page() -> str:
    parts = [_ABOUT, "## Duetime", class_docs(Duetime), *_callable("Duetime", Base.__init__)[1:]]
    for heading, (of, *bases) in _GROUPS.items():
        methods = ((f"{_PREFIXES.get(of, '')}{name}", method) for name, method in _methods(of, *bases))
        about = class_docs(of) if of in _PREFIXES else ""
        parts += [f"## {heading}", about, *(part for each in methods for part in _callable(*each))]
    parts += ["## AsyncDuetime", class_docs(AsyncDuetime)]
    aliases = name_docs(options) | name_docs(types)
    parts += ["## Times, durations and ids", table(["type", "meaning"], ((code(n), aliases[n]) for n in _ALIASES))]
    parts += ["## Options", *(part for of in _OPTIONS for part in _fields(of))]
    parts += ["## Results", *(part for of in _RESULTS for part in _fields(of))]
    parts += ["## Tasks", *_callable("task", task), *_fields(TaskContext)]
    parts += _classes(PermanentError, RetryLater, Registry)
    parts += ["## Testing", *_class(Simulation), *_class(SettableClock)]
    refusals = (Refused, NotFound, InvalidInput, Conflict, LimitReached)
    parts += ["## Errors", *_classes(DuetimeError, *refusals, StoreUnavailable, NotStartedWarning)]
    return page("Python", *parts)


def undescribed() -> list[str]:
    """Return the public methods, options and results without a description."""
    methods = [
        f"{of.__name__}.{name}"
        for of, *bases in _GROUPS.values()
        for name, each in _methods(of, *bases)
        if not each.__doc__
    ]
    fields = [
        f"{of.__name__}.{name}" for of in (*_OPTIONS, *_RESULTS) for name in own_fields(of) if name not in _meanings(of)
    ]
    return methods + fields


def _methods(of: type, *bases: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods of a class, or only those that these bases of it declare."""
    for base in bases or (of,):
        for name in vars(base):
            if not name.startswith("_") and inspect.isfunction(member := getattr(of, name)):
                yield name, member


def _callable(name: str, of: Callable[..., Any]) -> list[str]:
    return [f"### {name}", _signature(name, of), inspect.getdoc(of) or "", _links(of)]


def _signature(name: str, of: Callable[..., Any]) -> str:
    """Return the signature as text, with one parameter on each line if it is long."""
    signature = inspect.signature(of)
    given = [_parameter(each) for each in signature.parameters.values() if each.name != "self"]
    names = [each.kind for each in signature.parameters.values() if each.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in names and inspect.Parameter.VAR_POSITIONAL not in names:
        given.insert(names.index(inspect.Parameter.KEYWORD_ONLY), "*")
    result = _readable(signature.return_annotation)
    end = f" -> {result}" if result and name != "Duetime" else ""
    short = f"{name}({', '.join(given)}){end}"
    lines = "".join(f"    {each},\n" for each in given)
    return f"```text\n{short if len(short) <= 100 else f'{name}({chr(10)}{lines}){end}'}\n```"


def _parameter(given: inspect.Parameter) -> str:
    star = "**" if given.kind is given.VAR_KEYWORD else "*" if given.kind is given.VAR_POSITIONAL else ""
    kind = _readable(given.annotation)
    default = "" if given.default is inspect.Parameter.empty else f" = {given.default!r}"
    return f"{star}{given.name}{f': {kind}' if kind else ''}{default}"


def _readable(annotation: Any) -> str:
    """Return an annotation as people read it: options by their name."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = re.sub(r"Unpack\[(\w+)\]", r"\1", text).strip("\"'")
    return text


def _links(of: Callable[..., Any]) -> str:
    """Return links to the types that a signature names."""
    signature = inspect.signature(of)
    said = " ".join(_readable(each.annotation) for each in signature.parameters.values())
    named = dict.fromkeys(_LINKED.findall(f"{said} {_readable(signature.return_annotation)}"))
    return f"See {', '.join(_link(name) for name in named)}." if named else ""


def _link(name: str) -> str:
    return f"[{name}](#{_heading(name).lower().replace(' ', '-')})"


def _heading(name: str) -> str:
    """Return the heading of a class: methods have the same names as some of them."""
    return f"{name} attributes" if name in ("Run", "Schedule") else name


def _fields(of: type) -> list[str]:
    said, types_ = _meanings(of), declared_types(of)
    kinds = {name: types_.get(name) or _field(of.__annotations__[name]) for name in own_fields(of)}
    rows = ((code(name), code(kind), said.get(name, "")) for name, kind in kinds.items())
    also = " and ".join(_link(base) for base in base_names(of) if _LINKED.fullmatch(base))
    return [
        f"### {_heading(of.__name__)}",
        class_docs(of),
        table(["field", "type", "meaning"], rows),
        f"Also: all fields of {also}." if also else "",
    ]


def _meanings(of: type) -> dict[str, str]:
    """Return what each field means, from its docstring or from the declaration of the option."""
    notes = {name: getattr(each, "__metadata__", ())[:1] for name, each in of.__annotations__.items()}
    declared = {
        name: each.sentence for name, found in notes.items() for each in found if isinstance(each, options.Option)
    }
    return declared | field_docs(of)


def _field(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", str(annotation))
    return text


def _classes(*several: type) -> Iterable[str]:
    return [part for of in several for part in (f"### {of.__name__}", class_docs(of))]


def _class(of: type) -> list[str]:
    rows = ((code(name), inspect.getdoc(method) or "") for name, method in _methods(of))
    return [f"### {of.__name__}", class_docs(of), table(["method", "meaning"], rows)]
