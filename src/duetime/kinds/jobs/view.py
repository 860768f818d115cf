"""How the commands show jobs. Showing one needs none of the commands."""

from __future__ import annotations

from duetime.terminal.schedules.kind_view import KindView, filled

JOB = KindView(
    "job",
    "job",
    "jobs",
    ("NAME",),
    lambda definition, _: (definition.name,),
    lambda _, payload: filled(payload, "task", "args", "kwargs"),
)
