"""How the commands show jobs. Showing one needs none of the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duetime.terminal.schedules.kind_view import Facts, KindView, Payload, filled

if TYPE_CHECKING:
    from duetime.service.vocabulary import Definition


def _facts(_: Definition, payload: Payload) -> Facts:
    return [("task", payload.get("task", "")), *filled(payload, "args", "kwargs")]


JOB = KindView("job", "job", "jobs", ("NAME",), lambda definition, _: (definition.name,), _facts)
