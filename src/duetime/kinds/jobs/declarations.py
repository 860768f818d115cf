"""Schedules that the code declares: `@task(when="every weekday at 8:30")`.

When a worker starts, it creates them, changes those whose declaration changed, and cancels those whose declaration is
gone from a module that it imported. During a deployment, workers with old and new code run side by side: each worker
publishes in its row a digest of what each module declares, and the digests that this replaces. A worker whose digest is
replaced applies its declarations only once no worker that replaces them is alive.

A task that moves to another module gets a new schedule, and the former one is cancelled once no live worker has the
former module. The worker publishes that it replaces the declarations of that module, too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple

from duetime.engine.actor import MODULE, Actor
from duetime.engine.errors import DuetimeError, Refused
from duetime.engine.fingerprint import fingerprint
from duetime.engine.kind import Caller
from duetime.engine.model import OVER, Schedule, ScheduleState
from duetime.engine.new_schedule import in_order_of_chains
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.jobs.declaration_reader import PREFIX, module_name
from duetime.kinds.jobs.loading import FILE_PREFIX, task_modules
from duetime.kinds.jobs.registry import Registry, Task, default_registry
from duetime.service.operations.create import create_new
from duetime.service.services import OPERATOR, Call, Services
from duetime.service.workers import living, work_entry

log = logging.getLogger("duetime.jobs")
RETIRED: Final = "retired"
"""Stands for the fingerprint of a schedule that was cancelled because its declaration is gone. If the declaration comes
back, so does the schedule; what a person cancelled stays cancelled."""
CHECK_SECONDS: Final = 5.0
"""Time between two checks whether workers with newer declarations are still alive."""
_PUBLISHED: Final = work_entry("job:declared", "")


class DeclaringModule(NamedTuple):
    """The declared schedules of a module, by key: what the code says, and what is in the store."""

    name: str
    declared: Mapping[str, NewSchedule]
    stored: Mapping[str, Schedule]
    entry: str
    """What a worker of this process publishes about it."""
    is_in_force: bool
    is_replaced: bool
    """Whether a live worker has replaced these declarations, or still has the module from which tasks have moved."""


class Declarations:
    """The declared schedules of this process, and those in the store."""

    def __init__(self, services: Services, registry: Registry) -> None:
        self._services = services
        declared = [task.schedule for task in registry if task.schedule is not None]
        by_module = _by_module({str(new.idempotency_key): new for new in declared})
        declared += [task.schedule for task in default_registry if task.schedule is not None]
        self._keys = {new.idempotency_key for new in declared}
        self._imported = _imported((*registry, *default_registry))
        self._declared = {name: news for name, news in by_module.items() if name in self._imported}
        self._failed = sorted(by_module.keys() - self._declared.keys())

    def entries(self) -> list[str]:
        """Return what the worker publishes in its row. It registers before it applies anything, so that of two workers
        that start one after the other, only the later one replaces the other's declarations. If two with different
        declarations start at the same instant, neither knows of the other, and the one that applies last wins."""
        return [module.entry for module in self._modules()]

    def follow(self, stopping: threading.Event) -> None:
        """Apply the declarations: now or, if they have to wait for live workers, once no such worker is left."""

        def keep_trying() -> None:
            while not stopping.wait(CHECK_SECONDS) and not self._has_applied(stopping):
                pass

        for name in self._failed:
            log.error("%s: its declared schedules stay as they are, because it could not be imported", name)
        if not self._has_applied(stopping):
            threading.Thread(target=keep_trying, name="duetime-declarations", daemon=True).start()

    def _has_applied(self, stopping: threading.Event) -> bool:
        try:
            return self.apply()
        except DuetimeError as error:  # the store may be away for a moment
            if not stopping.is_set():
                log.warning("declared schedules are not up to date yet: %s", error)
            return False

    def apply(self) -> bool:
        """Create, change and cancel schedules as the code says. Return whether no module has to wait for other
        workers; see `is_replaced`."""
        modules = [module for module in self._modules() if not module.is_in_force]
        for module in modules:
            if not module.is_replaced:
                self._apply(module)
        return not any(module.is_replaced for module in modules)

    def _apply(self, module: DeclaringModule) -> None:
        scheduler = self._services.scheduler
        caller = OPERATOR._replace(actor=Actor(MODULE, module.name, "python"))
        for key, new in in_order_of_chains(module.declared.items(), itemgetter(1)):
            if key in module.stored and _is_retired(module.stored[key]):
                with suppress(Refused):
                    scheduler.delete(caller, module.stored[key])  # frees the key; its history stays
            call = Call(self._services, caller, self._services.zone)
            if (problem := _problem_of(partial(create_new, call, new, "update"))) is not None:
                log.error("%s: the declared schedule of %s is not in force: %s", module.name, new.name, problem)
        for key in module.stored.keys() - self._keys:
            definition, progress = module.stored[key]
            if progress.state not in OVER:
                self._retire(caller, module.name, definition.public_id)

    def _retire(self, caller: Caller, module: str, id: str) -> None:
        scheduler = self._services.scheduler
        changes = Changes(fingerprint=RETIRED, amid_runs=True)
        for change in (partial(scheduler.edit, caller, id, changes), partial(scheduler.cancel, caller, id)):
            if (problem := _problem_of(change)) is not None:
                log.error("%s: %s is declared no more, but could not be cancelled: %s", module, id, problem)
                return
        log.info("%s: %s is declared no more and was cancelled", module, id)

    def _modules(self) -> Iterator[DeclaringModule]:
        """Yield the modules that this process imported and that declare something, or did so before; then those from
        which tasks have moved to one of these modules."""
        scheduler = self._services.scheduler
        schedules = scheduler.store.by_key_prefix(OPERATOR.owner, PREFIX)
        all_stored = _by_module({each.definition.key: each for each in schedules})
        alive = living(scheduler.store.workers(), scheduler.clock.now())
        lanes = [lane for worker in alive for lane in worker.lanes.split(",")]
        entries = [lane.removeprefix(_PUBLISHED).split(":") for lane in lanes if lane.startswith(_PUBLISHED)]
        tasks = set[str]()
        for name in sorted(self._declared.keys() | (all_stored.keys() & self._imported)):
            declared, stored = self._declared.get(name, {}), all_stored.get(name, {})
            digest = _hash({key: fingerprint(new, scheduler.zone) for key, new in declared.items()})
            in_force = _digest_in_force(declared, stored)
            published = _Published.about(name, entries)
            is_replaced = digest in published.replaced
            entry = published.entry(name, digest, in_force)
            yield DeclaringModule(name, declared, stored, entry, digest == in_force, is_replaced)
            tasks |= set() if is_replaced else {new.name for new in declared.values()}
        for name in sorted(all_stored.keys() - self._imported):
            stored = {key: each for key, each in all_stored[name].items() if each.progress.state not in OVER}
            moved = {key: each for key, each in stored.items() if key.rpartition(":")[2] in tasks}
            if moved:
                published = _Published.about(name, entries)
                entry = published.entry(name, "", _digest_in_force({}, stored))
                yield DeclaringModule(name, {}, moved, entry, False, bool(published.digests))


class _Published(NamedTuple):
    """The digests that live workers publish about a module."""

    digests: frozenset[str]
    """Those of what they declare. A worker that does not have the module, because its tasks moved, has none."""
    replaced: frozenset[str]

    @classmethod
    def about(cls, name: str, entries: Sequence[Sequence[str]]) -> _Published:
        published = [(own, replaced) for module, own, replaced in entries if module == _hash(name)]
        replaced = {each for _, digests in published for each in digests.split("+")}
        return cls(frozenset({own for own, _ in published} - {""}), frozenset(replaced - {""}))

    def entry(self, name: str, digest: str, in_force: str) -> str:
        known = {in_force, *self.replaced, *self.digests} - {digest}
        return f"{_PUBLISHED}{_hash(name)}:{digest}:{'+'.join(sorted(known))}"


def _digest_in_force(declared: Mapping[str, NewSchedule], stored: Mapping[str, Schedule]) -> str:
    # What is over counts only if it is still declared: a person cancelled it, or it has ended.
    active = {key for key, each in stored.items() if each.progress.state not in OVER}
    active |= {key for key in stored.keys() & declared.keys() if not _is_retired(stored[key])}
    return _hash({key: stored[key].definition.fingerprint for key in active})


def _by_module(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    modules: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        modules.setdefault(key.removeprefix(PREFIX).rpartition(":")[0], {})[key] = value
    return modules


def _imported(tasks: Iterable[Task]) -> set[str]:
    """Return the modules in this process that may have declared something, by the names that keys contain. A file has
    the name of an installed module there if both are called `calendar`, so modules of the standard library count only
    if they were loaded as task modules or declare something, and those of other packages only if they have tasks."""
    declaring, others = set(task_modules), set[str]()
    for task in tasks:
        names = others if task.schedule is None else declaring
        names.add(getattr(task.function, "__module__", None) or "")

    def may_declare(name: str) -> bool:
        if "." in name or name == "__main__" or name.startswith(FILE_PREFIX) or name in declaring:
            return True
        file = getattr(sys.modules.get(name), "__file__", None)
        is_installed = file is None or "site-packages" in str(file) or "dist-packages" in str(file)
        return name not in sys.stdlib_module_names and (name in others or not is_installed)

    return {module_name(name) for name in list(sys.modules) if may_declare(name)}


def _problem_of(change: Callable[[], object]) -> str | None:
    """Make a change; return why it was refused, or None. The error of a store that cannot be reached is raised, so that
    everything is tried again."""
    try:
        change()
    except Refused as error:
        return error.message
    return None


def _is_retired(schedule: Schedule) -> bool:
    return schedule.progress.state == ScheduleState.CANCELLED and schedule.definition.fingerprint == RETIRED


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
