"""The common part of the tools for all kinds: which kinds they serve, and how they read kinds and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import Run, Schedule
from duetime.engine.result import Err, Ok, Result
from duetime.engine.times import read_instant
from duetime.mcp.definitions import Arguments, Schema, ToolProblem, text
from duetime.service.kind_spec import KindSpec
from duetime.service.lookup import find_schedule
from duetime.service.services import Call
from duetime.service.text import listed

ID: Schema = {"type": ["string", "integer"], "description": "Id of any kind, such as 5, or a name."}


class Served(NamedTuple):
    """The kinds that the tools for all kinds serve: those of the enabled families, and those without a family."""

    specs: Sequence[KindSpec]
    is_whole: bool
    """Whether every family is enabled."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.specs)

    @property
    def plurals(self) -> str:
        return listed([spec.plural for spec in self.specs])

    @property
    def kind_argument(self) -> Schema:
        return text("Only this kind.", enum=list(self.names))

    def kinds(self, given: Arguments) -> tuple[str, ...] | None:
        """Return the requested kinds; None for all that exist."""
        kind = given.get("kind")
        if kind is None:
            return None if self.is_whole else self.names
        return (kind,)

    def serves(self, kind: str) -> bool:
        return self.is_whole or kind in self.names


def find(call: Call, given: str | int, served: Served, *, deleted: bool = False) -> Result[Schedule]:
    """Find a schedule of a served kind; with `deleted`, also one that was deleted, for its history."""
    found = find_schedule(call.scheduler, call.caller, given, deleted=deleted)
    if isinstance(found, Err):
        message = f"Not found: {str(given)[:100]}. list_upcoming shows what is scheduled."
        return Err("not_found", message) if found.code == "not_found" else found
    kind = found.value.definition.kind
    off = Err("not_found", f"The tools for a {kind} are switched off on this server.")
    return found if served.serves(kind) else off


def served_run(call: Call, run_id: int, served: Served) -> Result[Run]:
    """Find a run of a served kind."""
    run = call.scheduler.run(call.caller, run_id)
    if run is None or not served.serves(run.kind):
        return Err("not_found", f"Run not found: {run_id}")
    return Ok(run)


def one_of(given: Arguments, *names: str) -> str:
    """Return which of these arguments is given, or raise a ToolProblem unless it is exactly one."""
    found = [name for name in names if name in given]
    if len(found) != 1:
        raise ToolProblem(f"Give exactly one of {' and '.join(names)}.")
    return found[0]


def instant_in(
    call: Call, given: Arguments, name: str, zone: str, *, last: bool = False, past: bool = False
) -> Instant | None:
    """Return the time in an argument. With `last`, it is the end of a range, which includes all of a day without a
    time. With `past`, it may be `yesterday`, and a weekday is the most recent one."""
    if name not in given:
        return None
    try:
        return read_instant(given[name], zone, call.scheduler.clock.now(), last=last, past=past)
    except DuetimeError as error:
        raise ToolProblem(f"{name}: {error.message} Try 'tomorrow 18:00' or 2026-02-10T18:00:00.") from error


def tool_id(public_id: str) -> int | str:
    """Return an id in the type that tools return and accept, because some kinds number their schedules."""
    return int(public_id) if public_id.isascii() and public_id.isdigit() else public_id


def with_tool_id(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "id": tool_id(row["id"])}
