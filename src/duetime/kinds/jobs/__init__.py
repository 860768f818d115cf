"""Jobs: registered functions, run in a thread pool, on an event loop or in child processes."""

from __future__ import annotations

from duetime.service.kind_spec import Command, KindSpec

SPEC = KindSpec(
    name="job",
    plural="jobs",
    build="duetime.kinds.jobs.build:build",
    payload_fields="task, args, kwargs",
    title="Run a task",
    family="jobs",
    tools="duetime.kinds.jobs.mcp:TOOLS",
    cancel_tool="cancel_job",
    resources="duetime.kinds.jobs.mcp:RESOURCES",
    instructions="Jobs run registered functions (schedule_job)",
    api="duetime.kinds.jobs.api:routes",
    commands=(Command("job", "duetime.kinds.jobs.cli:commands", "Jobs: add, edit and list them, and list the tasks."),),
    view="duetime.kinds.jobs.view:JOB",
    form="duetime.kinds.jobs.form:FORM",
    editable="duetime.kinds.jobs.mcp:EDITABLE",
    settings="duetime.kinds.jobs.settings:SETTINGS",
    checks="duetime.kinds.jobs.checks:CHECKS",
    text="task",
    recipient="task",
    may_be_outside=lambda settings: False,
    colour=1,
    icon="task",
)
