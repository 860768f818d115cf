"""Assembles Duetime from its parts. This is the only module that names concrete stores.

It contains `App` and `build`, which opens the store and creates the kinds and the scheduler, and the functions that
build the MCP server, the tokens and the HTTP application.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duetime.engine.clock import DAY, SECOND, Clock, SystemClock
from duetime.engine.errors import InvalidInput, StoreUnusable
from duetime.engine.kind import LOCAL, Kind
from duetime.engine.lazy_logger import lazy_logger
from duetime.engine.limits import Limits
from duetime.engine.policy.fair_share import Budget
from duetime.engine.redaction import remember_secrets, without_password
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import Store
from duetime.engine.trace_context import may_trace
from duetime.engine.value_class import dataclass
from duetime.engine.worker.lease import ExchangeAge
from duetime.kinds import load_specs
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.security.redaction import secrets_of
from duetime.service.distribution import version
from duetime.service.errors import refuse
from duetime.service.kind_spec import BuildContext, KindSpec, known_specs, load
from duetime.service.published import SERVER_IS_OLDER, differences, publication, read_publication, without_address
from duetime.service.services import OPERATOR, Services, operator_call, process_name
from duetime.service.tokens import load_tokens, runs_under_way
from duetime.service.workers import is_alive, work_entry
from duetime.settings import RUNS_PER_HOUR, Settings, data_folder, is_postgres, local_zone
from duetime.settings.locations import make_folder, store_file

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from duetime.engine.worker.threads import Engine
    from duetime.kinds.jobs.registry import Registry
    from duetime.mcp.catalog import Catalog
    from duetime.mcp.server import McpServer
    from duetime.security.tokens import Tokens
    from duetime.service.owner_limits import OwnerLimits
    from duetime.service.services import Call


# The app: its components, and the functions that create them.

log = lazy_logger("duetime.delivery")
_MOST_PUBLISHED = 200
"""Number of tasks beyond which a worker publishes none, because other processes read its row every second."""


@dataclass(frozen=True, slots=True)
class App:
    """The components of one Duetime process."""

    settings: Settings
    clock: Clock
    store: Store
    kinds: Mapping[str, Kind]
    scheduler: Scheduler
    exchange_age: ExchangeAge
    published: str | None = None
    """What a server had published when this was built, if it was read."""

    @property
    def services(self) -> Services:
        """The operations that the interfaces use."""
        local = [name for name, spec in known_specs().items() if not spec.may_be_outside(self.settings)]
        return Services(self.scheduler, local)

    @property
    def call(self) -> Call:
        """The context of a request of the command line."""
        return operator_call(self.services)

    @property
    def registry(self) -> Registry:
        from duetime.kinds.jobs.kind import JobKind

        return self.services.kind(JobKind).registry

    def engine(self, *, session: bool = False) -> Engine:
        from duetime.engine.worker.threads import Engine
        from duetime.engine.worker.worker import WorkerOptions
        from duetime.kinds.jobs.declarations import Declarations
        from duetime.kinds.jobs.kind import JobKind
        from duetime.kinds.notifications.build import notes_for_others
        from duetime.kinds.notifications.kind import NotificationKind

        declarations, jobs = Declarations(self.services, self.registry), self.services.kind(JobKind)
        limit = self.settings.max_runs_per_hour
        # A limit that the operator did not set exempts their own runs.
        exempt = frozenset({LOCAL} if limit == RUNS_PER_HOUR else ())
        options = WorkerOptions(
            threads=self.settings.threads,
            lease=self.settings.lease,
            session=session,
            name=process_name(),
            published=(*self._known_work(), *jobs.entries(), *(() if session else declarations.entries())),
            known_schema=self.store.known_schema,
            runs_per_hour=Budget(limit, exempt) if limit else None,
            retention=self.settings.retention_days * DAY / SECOND or None,
            stored_bytes=self.settings.max_stored_bytes or None,
            log_bytes=self.settings.max_log_bytes,
        )
        if not session:
            self.keep_heartbeat()
        delivery = self.services.kind(NotificationKind).delivery
        for problem in delivery.problems():
            log.error("%s; what is sent there fails until this is fixed", problem)
        if not session:
            for note in notes_for_others(self.scheduler, self.settings, delivery, addresses=False):
                log.warning("%s", note)
        if may_trace() and isinstance(self.clock, SystemClock):
            from duetime.tracing import trace_runs

            trace_runs(self.kinds.values(), self.store)
        engine = Engine(self.store, self.kinds, self.clock, options, self.exchange_age)

        def begin(stopping: threading.Event) -> None:
            if not session:
                declarations.follow(stopping)
            jobs.track(lambda: engine.worker.id, engine.worker.clock, stopping)

        engine.registered = begin
        return engine

    def _known_work(self) -> tuple[str, ...]:
        """Return what a worker of this process can run, by kind, without kinds that would make its row too long."""
        known = {name: self.services.hooks(name).known_work() for name in self.kinds}
        return tuple(
            work_entry(kind, each) for kind, names in known.items() if len(names) <= _MOST_PUBLISHED for each in names
        )

    def publish(self, url: str = "") -> str:
        """Publish the zone, agents, channels and default topic of this server, so that other processes on this store
        use the same ones, and its address. Return what was published."""
        kinds = {name: self.services.hooks(name).published_settings() for name in self.kinds}
        published = publication(self.settings, self.scheduler.zone, kinds, url)
        self.store.publish(published)
        return published

    def withdraw_address(self, published: str) -> None:
        """Remove the address of this stopping server from what it published, unless another server has published
        since."""
        if self.store.published() == published:
            self.store.publish(without_address(published))

    def keep_heartbeat(self) -> None:
        """Create, update or end the heartbeat schedule as the settings say.

        This is called before the worker of this process starts, so any live worker is another one.
        """
        from duetime.kinds.prompts.agents.heartbeat import sync_heartbeat

        alone = not any(is_alive(each, self.clock.now()) for each in self.scheduler.store.workers())
        beat = self.settings.heartbeat
        by_settings = OPERATOR._replace(actor=OPERATOR.actor._replace(interface="settings"))
        sync_heartbeat(self.scheduler, by_settings, beat.every, beat.between, alone=alone)

    def close(self) -> None:
        for kind in self.kinds.built.values() if isinstance(self.kinds, LazyKinds) else self.kinds.values():
            kind.close()
        if self.store.observer is not None:
            self.store.observer.close()
        self.store.close()


def build(
    settings: Settings,
    *,
    clock: Clock | None = None,
    registry: Registry | None = None,
    tasks: bool = True,
    must_exist: bool = False,
    use_published: bool = False,
    lazy: bool = False,
) -> App:
    """Open the store, migrate its schema, load the task modules unless `tasks` is false, and assemble the app.

    `must_exist`: a SQLite file that does not exist is an error, because the user named it and it must not be created
    silently. `use_published`: what the server published in the store takes precedence over the settings. `lazy`: build
    each kind when it is first used, for a command, which uses one of them.
    """
    is_real, clock = clock is None, clock or SystemClock()  # a simulated run calls nobody
    remember_secrets(secrets_of(settings, os.environ))
    local_zone(settings)  # a problem of the zone or of a kind is reported before a store is created
    load_specs()
    store = open_store(settings.path_of_db(), clock, must_exist=must_exist)
    try:
        store.migrate()
        store.messenger = replace(MESSENGER, topics=settings.notifications.alerts_by_tag)
        if is_real:
            from duetime.net.pings import Pings

            store.observer = Pings(settings.allowed_hosts)
        published = store.published() if use_published else None
        return _assembled(settings, clock, store, {"registry": registry, "load_tasks": tasks}, published, lazy)
    except BaseException:
        store.close()
        raise


class LazyKinds(Mapping[str, Kind]):
    """The kinds of a process, each of which is built when it is first used: building all takes 20 ms."""

    def __init__(self, context: BuildContext, specs: Mapping[str, KindSpec]) -> None:
        self._context, self._specs = context, specs
        self.built: dict[str, Kind] = {}

    def __getitem__(self, name: str) -> Kind:
        if name not in self.built:
            self.built[name] = load(self._specs[name].build)(self._context)
        return self.built[name]

    def __contains__(self, name: object) -> bool:
        return name in self._specs

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)


def with_published(app: App, published: str | None) -> App:
    """Return an app on the same store with what a server has published since. The worker of the given app continues."""
    return _assembled(app.settings, app.clock, app.store, {"load_tasks": False}, published)


def _assembled(
    settings: Settings,
    clock: Clock,
    store: Store,
    options: Mapping[str, Any],
    published_text: str | None,
    lazy: bool = False,
) -> App:
    published = read_publication(published_text)
    is_older = published is not None and published.is_older_than(settings)
    server = None if is_older else published
    zone = local_zone(settings) if server is None else server.zone
    shared = {} if server is None else server.kinds
    context = BuildContext(settings, clock, store, zone, lambda: scheduler, options, shared)
    kinds: Mapping[str, Kind] = LazyKinds(context, load_specs())
    kinds = kinds if lazy else dict(kinds)
    scheduler = Scheduler(store, kinds, clock, zone=zone, limits=_limits(settings))
    scheduler.notices = [SERVER_IS_OLDER] if is_older else []
    if server is not None:
        scheduler.notices = _differences(settings, zone, Services(scheduler))
    if may_trace():
        from duetime.tracing import continue_requests

        continue_requests(scheduler)
    return App(settings, clock, store, kinds, scheduler, ExchangeAge(clock), published_text)


def _differences(settings: Settings, zone: str, services: Services) -> list[tuple[str, str]]:
    names = ["timezone"] if settings.timezone and local_zone(settings) != zone else []
    return differences(
        [*names, *(name for kind in services.kinds for name in services.hooks(kind).differing_settings())]
    )


def open_store(url: str, clock: Clock | None = None, *, must_exist: bool = False) -> Store:
    if is_postgres(url):
        from duetime.stores.postgres.store import PostgresStore

        return PostgresStore(url, clock, MESSENGER)
    if "://" in url and not url.startswith("sqlite://"):
        scheme = url.split("://", 1)[0]
        raise InvalidInput(
            field="db", problem=f"{scheme}:// is not known; use a path, sqlite:///path or postgresql://…"
        )
    from duetime.stores.sqlite.store import MEMORY, SqliteStore

    path = url.removeprefix("sqlite:///").removeprefix("sqlite://") or MEMORY
    if path != MEMORY:
        path = str(Path(path).expanduser())
        if must_exist and not Path(path).exists():
            raise StoreUnusable(f"there is no {path}; check --db")
        if Path(path).is_relative_to(data_folder()):
            make_folder(Path(path).parent)
    return SqliteStore(path, clock, MESSENGER)


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


# The MCP server, the tokens and the HTTP application.


def mcp_server(
    names: Sequence[str],
    identify: Callable[[], Call],
    limits: OwnerLimits | None = None,
    services: Services | None = None,
) -> McpServer:
    """Build the MCP server with the tools of these names. The SDK takes a second to import, so it is imported here, for
    commands that use MCP. The services say which required arguments have a default."""
    from duetime.mcp.server import McpServer

    return McpServer(catalog_for(names, services), identify, version(), limits)


def catalog_for(names: Sequence[str], services: Services | None) -> Catalog:
    from duetime.mcp.catalog import catalog_of

    return catalog_of(load_specs().values(), names, () if services is None else services.optional_arguments())


def tokens_of(settings: Settings, clock: Clock, store: Store) -> Tokens:
    """Return the tokens. The store knows whether a run is in progress, so tokens of runs are accepted too."""
    tokens = load_tokens(settings, clock, store)
    tokens.is_under_way = runs_under_way(store)
    return tokens


@contextmanager
def tokens_for_command(settings: Settings) -> Iterator[Tokens]:
    """Yield the tokens for one command. The store is opened when a revocation is first checked, if at all."""
    from duetime.security.revocations import LazyRevocations

    clock, db = SystemClock(), settings.path_of_db()
    with closing(LazyRevocations(lambda: open_store(db, clock), store_file(db))) as revocations:
        yield load_tokens(settings, clock, revocations)


def server_url(settings: Settings, *, is_named: bool) -> tuple[str, bool]:
    """Return the address of the server on this store, and whether it answers there. This is the published address,
    unless the user has named one (`is_named`). Refuse an address at which anything else answers, because that program
    would receive the credentials."""
    from duetime.http import url_for
    from duetime.http.probe import ProbeAnswer, who_answers

    db, url, key = settings.path_of_db(), url_for(settings.host, settings.port), ""
    file = store_file(db)
    if file is None or file.exists():
        with closing(open_store(db)) as store:
            store.migrate()
            publication = read_publication(store.published())
        if publication is not None:
            url, key = (publication.url if publication.url and not is_named else url), publication.key
    answer = who_answers(url, key)
    if answer is ProbeAnswer.OTHER:
        raise refuse(
            "not_possible",
            f"what answers at {url} is not the server of the store {without_password(db)}, so it gets no token; start "
            "that server with `duetime serve` on a free --port, or name its store with --db",
        )
    return url, answer is ProbeAnswer.OURS


def sign_in_link(url: str, tokens: Tokens) -> str:
    """Return a single-use link, valid for a few minutes, that signs a user of this machine in to the dashboard."""
    from duetime.http.sessions import Sessions

    return f"{url}/login?token={Sessions(tokens, SystemClock()).link()}"


def web(app: App, tokens: Tokens | None, hosts: Sequence[str] = ()) -> Starlette:
    """Build the HTTP application: REST, MCP, the dashboard, QStash's API, readiness, metrics and calendar feeds.

    Without tokens every caller is the local owner.
    """
    from duetime.dashboard.login import not_found_page, sign_in_page
    from duetime.dashboard.routes import web_routes
    from duetime.http.app import calendar_feed, http_app, identity
    from duetime.http.auth import ClientCommands, WebContext, by_token
    from duetime.http.browser_sessions import Browsers
    from duetime.http.connection_limits import owner_shares
    from duetime.http.hooks import Receiver
    from duetime.http.metrics import metrics, readiness
    from duetime.http.sessions import Proofs, Sessions
    from duetime.mcp.http import mcp_route, running
    from duetime.rest.application import api_mount
    from duetime.security.tokens import CALENDAR
    from duetime.service.owner_limits import OwnerLimits
    from duetime.service.services import local_call
    from duetime.settings.own_commands import header_command, stdio_command, store_options

    services = app.services
    identify = partial(local_call if tokens is None else by_token, services)
    limits = OwnerLimits(owner_shares(app.settings))
    server = mcp_server(app.settings.tools, partial(identify, "mcp"), limits, services)
    makers = [load(spec.routes) for spec in services.specs.values() if spec.routes]
    further = [route for make in makers for route in make(services, partial(identify, "qstash-api"))]
    sessions = None if tokens is None else Sessions(tokens, app.clock)
    browsers = Browsers(sessions, Proofs(tokens), sign_in_page)
    own = app.settings
    commands = ClientCommands(stdio_command(own), header_command(own), store_options(own))
    context = WebContext(services, identify, trusting=tokens is None, commands=commands)
    watched = [readiness(app.scheduler, app.exchange_age), metrics(context, app.exchange_age), identity(app.store)]
    watched.append(calendar_feed(services, None if tokens is None else tokens.for_purpose(CALENDAR)))
    watched += Receiver(services, limits).routes()
    pages = web_routes(context, browsers)
    routes = [*watched, *further, *pages, mcp_route(server, limits)]
    names = (*app.settings.hosts, *hosts)
    api = api_mount(context, version(), limits)
    application = http_app(tokens, browsers, not_found_page, api, routes, partial(running, server), names, limits)
    if may_trace():
        from duetime.tracing import with_traces

        application.add_middleware(with_traces)
    return application
