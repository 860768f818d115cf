"""Executors: clusters of other programs, such as Dask, that run tasks with `runs_on`. Other packages add types through
entry points of the group `duetime.executors`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Final, Protocol

from duetime.engine.errors import DuetimeError

ENTRY_POINTS: Final = "duetime.executors"
_BUILT_IN: Final = {
    "celery": "duetime.kinds.jobs.executors.celery:CeleryExecutor",
    "dask": "duetime.kinds.jobs.executors.dask:DaskExecutor",
    "ray": "duetime.kinds.jobs.executors.ray:RayExecutor",
}


class ExecutorMissing(DuetimeError):
    """A package that an executor needs is not installed."""

    code = "executor_missing"


class Executor(Protocol):
    """The connection to a cluster, which `type(address)` opens. One thread uses it. Whatever it raises means that the
    cluster is away; the connection is then closed, and opened again later. No call may block for more than seconds."""

    needs_timeout: ClassVar[bool]
    """Whether the cluster may lose a call without a trace, so that only a timeout ends its run."""

    def submit(self, calls: Mapping[str, str]) -> None:
        """Have the cluster call `duetime.kinds.jobs.remote.call` with each text, under its key. What was submitted has
        to outlive this process. Submitting a known key again changes nothing."""

    def poll(self, keys: Collection[str]) -> Mapping[str, str | None]:
        """Return the answers to those calls that have ended, and None for those that have not. A key that is missing
        is not known to the cluster."""

    def keys(self, prefix: str) -> Collection[str]:
        """Return the keys with this prefix that the cluster knows, whoever submitted them."""

    def forget(self, keys: Collection[str]) -> None:
        """Drop these calls and their answers; cancel what has not ended, as far as the cluster can."""

    def workers(self) -> int | None:
        """Return the number of the cluster's workers; None if that is unknown."""

    def close(self) -> None:
        """Close the connection. What was submitted goes on."""


@cache
def types_of_executors() -> Mapping[str, str]:
    """Return the known types, each with the path of its class."""
    from importlib.metadata import entry_points

    return {**{point.name: point.value for point in entry_points(group=ENTRY_POINTS)}, **_BUILT_IN}


def executor_type(type_: str) -> Any:
    """Return the class of a type. The package of the cluster is imported only when its instance connects."""
    module, _, name = types_of_executors()[type_].partition(":")
    return getattr(import_module(module), name)


def package(name: str, extra: str) -> Any:
    """Import the package of a cluster."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ExecutorMissing(f"{name} cannot be imported ({error}); run: pip install 'duetime[{extra}]'") from error
