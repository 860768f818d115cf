"""`KindSpec` describes a kind of work to the interfaces; `KindHooks` answers their questions about its schedules.

A spec names everything that is loaded on demand as `package.module:name`, so that knowing a kind imports none of its
code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from duetime.engine.errors import DuetimeError, InvalidInput, NotFound
from duetime.engine.value_class import NamedTuple, dataclass, pattern

if TYPE_CHECKING:
    from duetime.engine.clock import Clock
    from duetime.engine.kind import Caller
    from duetime.engine.model import Definition, Schedule
    from duetime.engine.scheduler import Scheduler
    from duetime.engine.scopes import Scopes
    from duetime.engine.store import Store
    from duetime.engine.validation import Changes
    from duetime.service.warnings import ScheduleWarning
    from duetime.settings import Settings

_NAME = pattern(r"[a-z][a-z0-9_]{0,49}")
_PATH = pattern(r"[\w.]+:\w+")


class Command(NamedTuple):
    """A command group of the command line. Its help shows the summary without importing its module."""

    name: str
    app: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSpec:
    """A kind of work. A kind without tools, command or form gets standard ones, generated from its payload model."""

    name: str
    plural: str
    build: str
    """Function of a BuildContext that returns the kind."""
    title: str = ""
    """What creating a schedule of this kind means to a person, such as "Run a task"."""
    payload: str = ""
    """Payload model, a dataclass, for the standard tools, command and form."""
    payload_fields: str = ""
    """The most important payload fields, for the description of the API."""
    family: str = ""
    """Name by which its tools are enabled, such as "jobs"; by default the plural, if there is a payload model."""
    tools: str = ""
    cancel_tool: str = ""
    """Name of the tool that cancels a schedule, if the kind has its own."""
    resources: str = ""
    recipes: str = ""
    """MCP prompts: ready-made requests that a client offers to its user."""
    instructions: str = ""
    """A clause for the instructions of the MCP server, such as "jobs run functions (schedule_job)"."""
    further_instructions: str = ""
    """Sentences at the end of these instructions."""
    commands: tuple[Command, ...] = ()
    """Its command groups; the first is the one that manages its schedules."""
    view: str = ""
    """KindView: how the commands show its schedules."""
    api: str = ""
    """FastAPI router that is part of `/api`."""
    routes: str = ""
    """Function that returns further HTTP routes, given the services and a function that returns the Call of a
    request."""
    form: str = ""
    pages: str = ""
    """Dashboard routes of its own."""
    masking: str = ""
    """Masking of its payloads and results, for kinds where hiding values that look like credentials is not
    sufficient."""
    settings: str = ""
    """KindSettings: its tables of the settings file, and the check of their values."""
    checks: str = ""
    """Checks: what `duetime doctor` checks for it."""
    cost: str = ""
    """Function that returns what a run used, such as tokens and dollars, from its result; None if that is unknown."""
    outcome: str = ""
    """Function that returns a sentence for people about a result that is an object; None if there is nothing to say."""
    text: str = ""
    """Payload field that a person reads, such as "message"."""
    editable: str = ""
    """Arguments by which an agent edits its payload fields: names with their schemas."""
    five_cron_fields: bool = False
    """Whether its tools accept only cron expressions with five fields: no seconds, and no names such as @daily."""
    recipient: str = ""
    """Payload field that names the recipient of the payload: masked values are not restored for a different
    recipient."""
    may_be_outside: Callable[[Settings], bool] = lambda settings: True
    """Whether another service may keep its schedules instead of this store (`KindHooks.outside`). Otherwise a list is
    shown without asking the kind, which would have to be imported."""
    colour: int = 0
    """Number of its colour in the dashboard, from 1 to 8; 0 lets the dashboard choose."""
    icon: str = "page"
    """Name of its icon in the dashboard."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is not a valid name for a kind: use lowercase letters, digits and underscores"
            )

    @property
    def command(self) -> str:
        """Name of the command group that manages its schedules; empty if there is none."""
        return self.commands[0].name if self.commands else self.name if self.payload else ""

    @property
    def canceller(self) -> str:
        """Name of the tool that cancels a schedule: its own, the standard one, or the one for all kinds."""
        standard = f"cancel_{self.name}" if self.payload and not self.tools else "delete_schedule"
        return self.cancel_tool or standard

    def paths(self) -> list[str]:
        """Return every dotted path of this spec."""
        values = (getattr(self, each.name) for each in fields(self))
        own = [value for value in values if isinstance(value, str) and _PATH.fullmatch(value)]
        return [*own, *(command.app for command in self.commands)]


def load(path: str) -> Any:
    """Import and return what `package.module:name` refers to."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


_known: dict[str, KindSpec] = {}


def register(specs: Iterable[KindSpec]) -> None:
    """Register kinds in this process. The built-in kinds are registered when their package is imported."""
    for spec in specs:
        _known.setdefault(spec.name, spec)


def known_specs() -> Mapping[str, KindSpec]:
    return _known


def check_kind(kind: str | None) -> None:
    """Refuse an unknown kind in a search, because an empty result would be misleading."""
    if kind is not None and kind not in _known:
        raise InvalidInput(field="kind", problem=f"there is no {kind[:100]!r}; choose from {', '.join(_known)}")


# -- building ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The parts from which a kind is built."""

    settings: Settings
    clock: Clock
    store: Store
    zone: str
    scheduler: Callable[[], Scheduler]
    """Returns the scheduler, which exists once all kinds are built."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Values that the caller passes to single kinds, such as the registry of tasks."""
    published: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each kind of the server published, which takes precedence over the settings. Empty in the server itself."""


# -- hooks ------------------------------------------------------------------------------------------------------------


class KindStatus(NamedTuple):
    """What a kind contributes to the status of an installation."""

    facts: Mapping[str, Any]
    warnings: Sequence[ScheduleWarning] = ()


KEPT_ELSEWHERE = "kept_elsewhere"
"""Code of the error about a schedule that is, or has to be, outside of this store."""


class Outside:
    """The schedules of a kind that another service keeps and fires instead of this store. The defaults are those of a
    kind without any."""

    list_notes: Sequence[str] = ()
    """Notes for lists of this store, which do not show these schedules."""
    failure_notes: Sequence[str] = ()
    """Notes for lists of failures, which are not recorded in this store."""

    def refusal(self) -> DuetimeError | None:
        """Return the reason why no schedule of this kind can be created in this store, or None."""
        return None

    def schedules(self, caller: Caller, topic: str | None = None) -> Sequence[Schedule]:
        """Return the caller's schedules as rows of this store would show them, with 0 as their number."""
        return ()

    def change(self, caller: Caller, action: str, id: str, *, is_limited: bool = False) -> Schedule:
        """Pause, resume, cancel or delete a schedule, and return it as it is then; a deleted one as it was.
        `is_limited`: whether a pause has an end or a note."""
        raise NotFound

    def why_missing(self, caller: Caller, id: str) -> DuetimeError | None:
        """Return the reason why a schedule that the caller has there is not found here; None if there is none."""
        return None


class KindHooks:
    """Questions of the interfaces about a kind's schedules. The defaults suit a kind that keeps all of them in the
    store."""

    defaults: Mapping[str, Any] = MappingProxyType({})
    counts_depth = True
    remembered: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    """The fields of a payload in which `{path}` stands for a value of the event that starts a run."""

    def scopes_for(self, definition: Definition) -> Scopes:
        """Return the scopes that a token which has scopes needs for a schedule, besides its kind."""
        return ()

    def create_warnings(self, definition: Definition, payload: Mapping[str, Any]) -> list[ScheduleWarning]:
        """Return warnings about a new schedule, whose creator requested this payload."""
        return []

    def known_work(self) -> list[str]:
        """Return the subjects of schedules that this process can run, if that differs between processes."""
        return []

    def delivery_warnings(self, topic: str, owner: str) -> list[ScheduleWarning]:
        """Return warnings about messages that this kind delivers to a topic of an owner."""
        return []

    def delivery_topics(self, owner: str) -> list[str]:
        """Return the topics of an owner to which this kind delivers messages, as suggestions for `deliver_to`."""
        return []

    def default_topic(self, owner: str) -> str:
        """Return the topic for an owner's messages that name none, if the settings have one for this kind."""
        return ""

    def topic(self, definition: Definition) -> str | None:
        """Return the topic of the messages that a schedule itself sends; None if it sends none."""
        return None

    def status(self, owner: str) -> KindStatus:
        """Return what is set up for an owner, and how much of it was used. `limits` are merged with those of all
        kinds."""
        return KindStatus({})

    def executor_views(self) -> list[dict[str, Any]]:
        """Return the clusters that run its work, for the operator."""
        return []

    def optional_arguments(self) -> tuple[str, ...]:
        """Return the required arguments of its tools that may be left out, because the settings have a default."""
        return ()

    def published_settings(self) -> Mapping[str, Any]:
        """Return the settings that other processes on the store should know: names and types, and no secrets."""
        return {}

    def differing_settings(self) -> list[str]:
        """Return the names of this process's settings that differ from the published ones, which are used instead."""
        return []

    def limits(self, definition: Definition) -> dict[str, Any]:
        """Return further limits in force for a schedule of this kind, by the names under which they are set."""
        return {}

    def outside(self) -> Outside:
        """Return the service that keeps the schedules of this kind instead of this store, if there is one."""
        return Outside()

    def name_of(self, payload: Mapping[str, Any]) -> str | None:
        """Return the name that a schedule gets from its payload, unless somebody gives it another one."""
        return None

    def trial(self, name: str, owner: str) -> dict[str, Any] | None:
        """Return the payload of a schedule that tests a channel or an agent of `status`; None if it cannot be
        tested."""
        return None

    def wakeable(self, owner: str) -> list[str]:
        """Return the names of agents that an owner can have woken for a run that waits to be taken."""
        return []

    def handed_to(self, payload: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return the payload of a schedule whose waiting runs are assigned to one of `wakeable`."""
        return dict(payload)

    def adapt_edit(self, caller: Caller, schedule: Schedule, changes: Changes) -> Changes:
        """Return the changes, marked with `amid_runs` if they may be made although a run is due."""
        return changes
