"""The one place that names concrete stores and kinds, and puts the parts together."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duetime.core.clock import DAY, SECOND, Clock, Instant, SystemClock, datetime_of
from duetime.core.delivering import Courier
from duetime.core.drafting import Limits
from duetime.core.errors import InvalidInput, StoreUnusable
from duetime.core.exchange_age import ExchangeAge
from duetime.core.kind import LOCAL, Caller, Kind
from duetime.core.policy.budget import Budget
from duetime.core.redaction import remember_secrets
from duetime.core.scheduler import Scheduler
from duetime.core.store import Store
from duetime.faces.desk import Desk
from duetime.faces.local_notifications import LocalNotifications
from duetime.faces.present import is_alive
from duetime.kinds.builtin import TASKS, operator_tasks
from duetime.kinds.job import JobKind
from duetime.kinds.loading import load, load_entry_points
from duetime.kinds.notification import NotificationKind
from duetime.kinds.registry import Registry, Task, default_registry
from duetime.kinds.request import RequestKind
from duetime.settings import RUNS_PER_HOUR, Settings, data_folder, is_postgres, local_zone
from duetime.settings.sections import QSTASH
from duetime.wiring.access import RunAccess, load_tokens, runs_under_way
from duetime.wiring.agents import inboxes_of, prompt_kind
from duetime.wiring.delivery import courier_of
from duetime.wiring.later import answered_later
from duetime.wiring.others import notes_for_others
from duetime.wiring.requests import OpenedByUse
from duetime.wiring.revocations import RevocationsByUse
from duetime.wiring.secrets import secrets_of
from duetime.wiring.standing import agents_for, channel_names, channels_for
from duetime.wiring.tasks import fetch_task

if TYPE_CHECKING:
    from duetime.core.engine import Engine

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from duetime.delivery.qstash.service import QStashNotifications
    from duetime.faces.http.tokens import Tokens
    from duetime.faces.mcp.server import McpFace
    from duetime.faces.mcp.tool import Call
    from duetime.faces.mcp.watching import Watcher
    from duetime.faces.owner_limits import OwnerLimits

PRUNE_BATCH = 1000

log = logging.getLogger("duetime.delivery")


@dataclass(frozen=True, slots=True)
class App:
    """The parts of one running Duetime."""

    settings: Settings
    clock: Clock
    store: Store
    registry: Registry
    kinds: Mapping[str, Kind]
    scheduler: Scheduler
    courier: Courier
    access: RunAccess
    exchange_age: ExchangeAge
    requests: OpenedByUse
    remote: QStashNotifications | None = None
    """Where notifications are kept elsewhere."""

    def engine(self, *, session: bool = False) -> Engine:
        import platform

        from duetime.core.engine import Engine
        from duetime.core.worker import WorkerOptions

        options = WorkerOptions(
            threads=self.settings.threads,
            lease=self.settings.lease,
            session=session,
            name=f"{platform.node()}:{os.getpid()}",
            known_schema=self.store.known_schema,
            runs_per_hour=_budget(self.settings),
            retention=self.settings.retention_days * DAY / SECOND or None,
        )
        if not session:
            self.keep_heartbeat()
        for problem in self.courier.problems():
            log.error("%s; what is sent there fails until this is mended", problem)
        if not session:
            self._tell_of_others()
        return Engine(self.store, self.kinds, self.clock, options, self.exchange_age)

    def _tell_of_others(self) -> None:
        for note in notes_for_others(self.scheduler, self.settings, self.courier, addresses=False):
            log.warning("%s", note)

    def keep_heartbeat(self) -> None:
        """As the settings say, before this process works: a worker that lives by now is another one."""
        from duetime.agents.beating import keep_beat

        alone = not any(is_alive(each, self.clock.now()) for each in self.scheduler.workers())
        keep_beat(self.scheduler, Caller(LOCAL), self.settings.heartbeat.every, alone=alone)

    def desk(self) -> Desk:
        """What faces work with."""
        here = LocalNotifications(self.scheduler, courier=self.courier, channels=partial(channel_names, self.settings))
        if self.remote is not None and self.remote.problem is not None:
            log.error("%s; no notification can be made until this is mended", self.remote.problem)
        return Desk(self.scheduler, self.registry.describe, self.remote or here, inboxes_of(self.settings))

    def close(self) -> None:
        for kind in self.kinds.values():
            kind.close()
        if self.remote is not None:
            self.remote.close()
        self.store.close()


def build(
    settings: Settings,
    *,
    clock: Clock | None = None,
    registry: Registry | None = None,
    tasks: bool = True,
    must_exist: bool = False,
) -> App:
    """Opens the store, brings its schema up to date and, unless they are not needed, loads the task modules.

    `must_exist`: a store that was named and is not there is a mistake, not a new one.
    """
    clock = clock or SystemClock()
    zone = local_zone(settings)
    remember_secrets(secrets_of(settings, os.environ))
    store = open_store(settings.path_of_db(), clock, must_exist=must_exist)
    try:
        store.migrate()
        if tasks:
            load_entry_points()
            load(settings.tasks, settings.origin.modules)
        own = (*TASKS, fetch_task(settings), *_operator_tasks(store, settings, clock))
        known = Registry(own, base=default_registry if registry is None else registry)
        courier = courier_of(settings, clock)
        access = RunAccess(settings, clock, zone)
        requests = OpenedByUse(settings, store, clock)
        kinds: dict[str, Kind] = {
            kind.name: kind
            for kind in (
                JobKind(known),
                prompt_kind(settings, store, clock, zone, access, lambda: scheduler),
                NotificationKind(courier),
                RequestKind(requests, clock),
            )
        }
        scheduler = Scheduler(store, kinds, clock, zone=zone, limits=_limits(settings))
    except BaseException:
        store.close()
        raise
    remote = remote_notifications(settings, scheduler)
    age = ExchangeAge(clock)
    return App(settings, clock, store, known, kinds, scheduler, courier, access, age, requests, remote)


def remote_notifications(settings: Settings, scheduler: Scheduler) -> QStashNotifications | None:
    """`QSTASH_TOKEN` and `QSTASH_URL`, which QStash's own tools know, serve where the settings name none."""
    given = settings.notifications
    if given.backend != QSTASH:
        return None
    from duetime.delivery.ntfy import NtfyServer
    from duetime.delivery.qstash.account import Account
    from duetime.delivery.qstash.service import QStashNotifications

    token = given.qstash_token or os.environ.get("QSTASH_TOKEN", "")
    account = Account(token, given.qstash_url or os.environ.get("QSTASH_URL", ""))
    server = NtfyServer(given.server, given.prefix, given.token)
    return QStashNotifications(scheduler, account, server, partial(channel_names, settings))


def open_store(url: str, clock: Clock | None = None, *, must_exist: bool = False) -> Store:
    if is_postgres(url):
        from duetime.stores.postgres import PostgresStore

        return PostgresStore(url, clock)
    if "://" in url and not url.startswith("sqlite://"):
        scheme = url.split("://", 1)[0]
        raise InvalidInput(f"db: {scheme}:// is not known; use a path, sqlite:///path or postgresql://…", field="db")
    from duetime.stores.sqlite import MEMORY, SqliteStore

    path = url.removeprefix("sqlite:///").removeprefix("sqlite://") or MEMORY
    if path != MEMORY:
        path = str(Path(path).expanduser())
        if must_exist and not Path(path).exists():
            raise StoreUnusable(f"there is no {path}; check --db")
        if Path(path).is_relative_to(data_folder()):
            _make_folder(Path(path).parent)
    return SqliteStore(path, clock)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreUnusable(f"{folder} cannot be made ({error.strerror}); choose another place with --db") from error


def _budget(settings: Settings) -> Budget | None:
    """What the operator did not set is no limit of the operator's own work."""
    limit = settings.max_runs_per_hour
    return Budget(limit, frozenset({LOCAL}) if limit == RUNS_PER_HOUR else frozenset()) if limit else None


def _limits(settings: Settings) -> Limits:
    return Limits(
        schedules=settings.max_schedules,
        smallest_interval=int(settings.smallest_interval * SECOND),
        payload_bytes=settings.max_payload_bytes,
        stored_bytes=settings.max_stored_bytes or None,
        depth=settings.max_depth,
        runs_per_hour=None if settings.max_runs_per_hour == RUNS_PER_HOUR else settings.max_runs_per_hour or None,
        pause_after=settings.pause_after,
    )


def _operator_tasks(store: Store, settings: Settings, clock: Clock) -> tuple[Task, ...]:
    def backup() -> dict[str, Any]:
        folder = settings.path_of_backups()
        _make_folder(folder)
        target = folder / f"duetime-{datetime_of(clock.now()):%Y%m%dT%H%M%S}.db"
        store.backup(str(target))
        return {"file": target.name, "bytes": target.stat().st_size}

    def prune() -> dict[str, Any]:
        return {"deleted": prune_history(store, clock, settings)}

    return operator_tasks(backup, prune)


def prune_history(store: Store, clock: Clock, settings: Settings) -> int:
    """In batches, so that no single transaction keeps the workers waiting."""
    if not settings.retention_days:
        return 0
    before = Instant(clock.now() - int(settings.retention_days * DAY))
    total = 0
    while deleted := store.prune(before, PRUNE_BATCH):
        total += deleted
    return total


def mcp_face(
    families: Sequence[str], identify: Callable[[], Call], limits: OwnerLimits | None = None
) -> tuple[McpFace, Watcher]:
    """The SDK takes a second to import, so only commands that speak MCP pay for it."""
    from importlib.metadata import version

    from duetime.faces.mcp.families import check_families, resources_of, tools_of
    from duetime.faces.mcp.recipes import RECIPES
    from duetime.faces.mcp.server import McpFace
    from duetime.faces.mcp.watching import Watcher

    chosen = check_families(families)
    resources = resources_of(chosen)
    watcher = Watcher(resources, None if limits is None else limits.shares)
    return McpFace(tools_of(chosen), resources, RECIPES, identify, watcher, version("duetime"), limits), watcher


def tokens_of(settings: Settings, clock: Clock | None = None, store: Store | None = None) -> Tokens:
    """With the store, which knows whether a run is under way, the tokens of runs are let in too. Without it the store
    of the settings is opened as soon as somebody asks what was revoked."""
    clock = clock or SystemClock()
    if store is None:
        return load_tokens(settings, clock, _revocations_by_use(settings, clock))
    tokens = load_tokens(settings, clock, store)
    tokens.is_under_way = runs_under_way(store)
    tokens.revocations.take_over_files()
    return tokens


@contextmanager
def tokens_at_hand(settings: Settings) -> Iterator[Tokens]:
    """For one command, which leaves no store open."""
    clock = SystemClock()
    revocations = _revocations_by_use(settings, clock)
    try:
        yield load_tokens(settings, clock, revocations)
    finally:
        revocations.close()


def _revocations_by_use(settings: Settings, clock: Clock) -> RevocationsByUse:
    db = settings.path_of_db()
    path = db.removeprefix("sqlite:///").removeprefix("sqlite://")
    return RevocationsByUse(lambda: open_store(db, clock), None if is_postgres(db) else Path(path).expanduser())


def sign_in_link(url: str, tokens: Tokens, clock: Clock | None = None) -> str:
    """Opens the dashboard at an address for whoever sits at this machine: once, and for a few minutes."""
    from duetime.faces.http.sessions import Sessions

    return f"{url}/login?token={Sessions(tokens, clock or SystemClock()).link()}"


def web(app: App, tokens: Tokens | None, hosts: Sequence[str] = ()) -> Starlette:
    """The HTTP face. Without tokens every caller is the local owner."""
    from importlib.metadata import version

    from duetime.faces.http.api.application import api_routes
    from duetime.faces.http.api.doors import House
    from duetime.faces.http.app import http_app
    from duetime.faces.http.bearer import by_token
    from duetime.faces.http.browsers import Browsers
    from duetime.faces.http.calendar_feed import calendar_feed
    from duetime.faces.http.metrics import Metrics
    from duetime.faces.http.qstash.routes import qstash_routes
    from duetime.faces.http.readiness import readiness
    from duetime.faces.http.sessions import Proofs, Sessions
    from duetime.faces.local import as_local
    from duetime.faces.owner_limits import OwnerLimits
    from duetime.faces.web.routes import web_routes
    from duetime.faces.web.signing import no_page, sign_in_page
    from duetime.wiring.http_limits import owner_shares

    desk, trusting = app.desk(), tokens is None
    identify = partial(as_local if tokens is None else by_token, desk)
    limits = OwnerLimits(owner_shares(app.settings))
    face, watcher = mcp_face(app.settings.tools, identify, limits)
    requests = qstash_routes(app.scheduler, lambda: identify().caller, app.requests.keys)
    sessions = None if tokens is None else Sessions(tokens, app.clock)
    browsers = Browsers(sessions, Proofs(tokens), sign_in_page)
    finish = answered_later(app.scheduler, app.kinds)
    known_agents, known_channels = partial(agents_for, app.settings), partial(channels_for, app.settings)
    house = House(desk, identify, finish, trusting, known_agents, known_channels)
    metrics = Metrics(app.scheduler, identify, app.exchange_age, trusting=trusting)
    watched = [readiness(app.scheduler, app.exchange_age), metrics.route()]
    watched.append(calendar_feed(app.scheduler, None if tokens is None else tokens.of_calendars()))
    routes = [*api_routes(house, version("duetime"), limits), *watched, *requests, *web_routes(house, browsers)]
    return http_app(face, watcher, tokens, browsers, no_page, (*app.settings.hosts, *hosts), routes, limits)
