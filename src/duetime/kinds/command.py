"""The module that settings name to allow `run_command`; the task itself is in `duetime.kinds.jobs.shell_task`."""

from duetime.kinds.jobs.shell_task import run_command

__all__ = ["run_command"]
