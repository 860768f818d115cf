"""Gives an agent's run access to Duetime's tools: its own token, and the server or command to use it with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from duetime.engine.clock import SECOND, Clock
from duetime.engine.errors import DuetimeError
from duetime.engine.model import RunId, RunStatus
from duetime.engine.policy.claim import Claim
from duetime.engine.redaction import without_password
from duetime.engine.store import Store
from duetime.engine.store_interfaces import Revocations
from duetime.kinds.prompts.agent import Access
from duetime.kinds.prompts.runner import zone_of
from duetime.settings import CONFIG, PREFIX, Settings, environment_names, is_postgres, load_settings, user_file
from duetime.settings.sections import QSTASH

if TYPE_CHECKING:
    from duetime.security.tokens import Tokens


import json
from importlib.util import find_spec

RUN_TOKEN = f"{PREFIX}RUN_TOKEN"
"""Environment variable with the token of the run that a stdio server serves."""
RUN_FOLDER = f"{PREFIX}RUN_FOLDER"
"""Environment variable with the folder in which the worker searches for task modules by name; absent if it searches in
none, because the folder in which it was started is not trusted."""
_ALWAYS = frozenset(("XDG_DATA_HOME", "PYTHONPATH", CONFIG, f"{PREFIX}SECRET"))
_SETTINGS = environment_names()
_TO_DELIVER = frozenset((f"{PREFIX}NOTIFICATIONS_TOKEN", f"{PREFIX}NOTIFICATIONS_QSTASH_TOKEN"))
_GRACE = 60.0
"""Seconds that a run's token and leases outlive its timeout; a finished run is refused anyway."""


def life_of(patience: float) -> int:
    """Return the lifetime of a run's token and of its leases on prompts, which is the same because the token finishes
    the prompts."""
    return int((patience + _GRACE) * SECOND)


class RunAccess:
    """Creates access for runs. An HTTP server with tokens sets `url`; otherwise, an agent starts a stdio server."""

    def __init__(self, settings: Settings, clock: Clock, zone: str) -> None:
        self._settings, self._clock, self._zone = settings, clock, zone
        self.url: str | None = settings.url or None

    @cached_property
    def _tokens(self) -> Tokens:
        return load_tokens(self._settings, self._clock)

    def __call__(self, claim: Claim, patience: float, depth: int, allowed: str) -> Access:
        """Return the access for a run. `depth` is the depth of what the run may schedule; `allowed` is what the run may
        use, and therefore what its schedules may use."""
        run, definition, _ = claim
        zone = zone_of(definition, self._zone)
        token = self._tokens.for_run(definition.owner, run.id, run.fence, depth, life_of(patience), zone, allowed)
        if self.url is not None:
            return Access(self.url, token)
        return stdio_access(self._settings, token, _server_variables(self._settings) | {RUN_TOKEN: token})


def stdio_access(settings: Settings, token: str = "", env: Mapping[str, str] = MappingProxyType({})) -> Access:
    """Return access to a stdio server of our own. The store is named in the environment, because everybody can read the
    command lines of all processes and a URL may contain a password."""
    own = {f"{PREFIX}DB": _absolute(settings.path_of_db())}
    if settings.tasks and settings.origin.modules is not None:
        own[RUN_FOLDER] = str(Path(settings.origin.modules).resolve())
    if settings.origin.file:
        own[CONFIG] = settings.origin.file  # the same file, even if it was changed and not trusted again
    return Access(None, token, (*_program(), *_options(settings)), {**env, **own})


def _server_variables(settings: Settings) -> dict[str, str]:
    """Return the variables that a stdio server needs: agents pass on few of their own, and can read those given to
    them. Delivery credentials stay with the worker, unless notifications are kept in QStash. The signing secret is
    included, because the server verifies its run's token with it."""
    elsewhere = settings.notifications.backend == QSTASH
    in_postgres = is_postgres(settings.path_of_db())

    def is_needed(name: str) -> bool:
        if name in _TO_DELIVER or name.startswith("QSTASH_"):
            return elsewhere
        if name.startswith("PG"):
            return in_postgres
        return name in _ALWAYS or name in _SETTINGS

    return {name: value for name, value in os.environ.items() if is_needed(name)}


def load_tokens(settings: Settings, clock: Clock, store: Revocations | None = None) -> Tokens:
    """Return the tokens; create the secret if there is none. Without a store, revocations are read from files only."""
    from duetime.security.private_files import load_secret
    from duetime.security.revocations import FileRevocations, StoreRevocations
    from duetime.security.tokens import Tokens

    folder = settings.path_of_keys()
    secret = load_secret(folder, os.environ)
    files = FileRevocations(folder / "tokens", clock)
    revocations = files if store is None else StoreRevocations(store, files, clock)
    return Tokens(secret, folder, clock, issuer=settings.issuer, audience=settings.audience, revocations=revocations)


def runs_under_way(store: Store) -> Callable[[int, int], bool]:
    """Return a function that checks whether a token's run is still in progress; a later attempt has another fence."""

    def is_under_way(run: int, fence: int) -> bool:
        found = store.run(RunId(run))
        return found is not None and found.fence == fence and found.status in (RunStatus.RUNNING, RunStatus.WAITING)

    return is_under_way


def stdio_command(settings: Settings) -> list[str]:
    """Return a command that does the same in every folder: relative paths are made absolute, and the settings file is
    named, because a server that is started elsewhere would find another one or none."""
    db, file = _absolute(settings.path_of_db()), settings.origin.file
    shown = without_password(db) if "://" in db else db
    store = [] if file and shown != db else ["--db", shown]  # a password is only read from the file
    named = ["--config", file] if file else []
    return [*this_program(), "mcp", *named, *store, *_options(settings, _found_anywhere)]


def header_command(settings: Settings) -> list[str]:
    """Return the command that prints the header with this machine's token, from any folder."""
    file = (settings.path_of_keys() / "local.token").absolute()
    return [*this_program(), "token", "header", "--file", str(file)]


def store_options(settings: Settings) -> list[str]:
    """Return the option that a command on a terminal needs to reach this store; empty if the command finds the store
    without it. A terminal has the user's own settings file, but neither the environment nor the folder of this
    process."""
    db = _absolute(settings.path_of_db())
    try:
        usual = _absolute(load_settings(environment={}, folder=user_file().parent).path_of_db())
    except (DuetimeError, OSError, RuntimeError):  # it cannot be read, or there is no home folder
        usual = ""
    return [] if db == usual else ["--db", without_password(db) if "://" in db else db]


def _program() -> list[str]:
    """Return the server command. -P keeps the folder in which a client starts it off the import path."""
    return [sys.executable, "-P", "-m", "duetime", "mcp"]


def _absolute(db: str) -> str:
    path = db.removeprefix("sqlite:///").removeprefix("sqlite://")
    return str(Path(path).expanduser().resolve()) if path and "://" not in path else db


def _absolute_file(task: str) -> str:
    return str(Path(task).resolve()) if task.endswith(".py") else task


def _found_anywhere(task: str) -> str:
    """Return the path of a module in this folder, which a server that is started elsewhere cannot find by name."""
    beside = Path(f"{task}.py").resolve()
    return str(beside) if beside.is_file() else _absolute_file(task)


def _options(settings: Settings, shown: Callable[[str], str] = _absolute_file) -> list[str]:
    """Return the options from command line and environment; the started server reads the settings file itself."""
    tasks = () if settings.origin.file and settings.origin.tasks == settings.origin.file else settings.tasks
    named = [part for each in tasks for part in ("--tasks", shown(each))]
    tools = ["--tools", ",".join(settings.tools)] if settings.tools else []
    return [*named, *tools]


# The command that starts this installation of Duetime again, from any folder and at any later time.

_UV_CACHE = ("archive-v0", "environments-v2")
"""Folders of uv's cache in which `uvx` creates environments, which a later cache cleanup removes."""
_EXTRAS = {"agent": "pydantic_ai", "channels": "apprise", "postgres": "psycopg", "qstash": "qstash"}
"""A module of each extra."""


def this_program(
    executable: str = sys.executable, environment: Mapping[str, str] | None = None, prefix: str = sys.prefix
) -> list[str]:
    """Return the start of a command line, with absolute paths. The interpreter of an environment of pip, pipx or `uv
    tool install` stays in place; that of `uvx` does not, so uv is started with the same package instead. -P keeps the
    folder in which it is started off the import path."""
    env = os.environ if environment is None else environment
    uv = env.get("UV", "")
    if uv and any(part in _UV_CACHE for part in Path(prefix).parts):
        return [str(Path(uv).absolute()), "tool", "run", "--from", _requirement(), "duetime"]
    return [executable, "-P", "-m", "duetime"]


def _requirement() -> str:
    """Return the requirement that installs this version from its original source, with the extras that are installed
    here."""
    from importlib.metadata import distribution

    found = distribution("duetime")
    extras = ",".join(name for name, module in _EXTRAS.items() if find_spec(module) is not None)
    name = f"duetime[{extras}]" if extras else "duetime"
    origin = found.read_text("direct_url.json")
    return f"{name} @ {json.loads(origin)['url']}" if origin else f"{name}=={found.version}"
