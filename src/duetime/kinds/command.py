"""The module that settings name to allow `run_command`: importing it registers the task."""

from duetime.kinds.jobs.registry import Task, default_registry
from duetime.kinds.jobs.shell_task import NAME, run_command

default_registry.add(Task(run_command, name=NAME, isolation="process", local=True))
