"""How an agent's run reaches Duetime's tools: its own token, and the server or the command to use it with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from duetime.engine.clock import SECOND, Clock
from duetime.engine.model import RunId, RunStatus
from duetime.engine.policy.claim import Claim
from duetime.engine.redaction import without_password
from duetime.engine.store import Store
from duetime.engine.store_revocations import Revocations
from duetime.kinds.prompts.agent import Access
from duetime.kinds.prompts.runner import zone_of
from duetime.settings import CONFIG, PREFIX, Settings, environment_names, is_postgres
from duetime.settings.sections import QSTASH

if TYPE_CHECKING:
    from duetime.security.tokens import Tokens

RUN_TOKEN = f"{PREFIX}RUN_TOKEN"
"""The variable in which a server over stdio finds whose run it serves."""
RUN_FOLDER = f"{PREFIX}RUN_FOLDER"
"""And the one with the folder of its worker: an agent works elsewhere, where other settings and modules may lie."""
_ALWAYS = frozenset(("XDG_DATA_HOME", "PYTHONPATH", CONFIG, f"{PREFIX}SECRET"))
_SETTINGS = environment_names()
_TO_DELIVER = frozenset((f"{PREFIX}NOTIFICATIONS_TOKEN", f"{PREFIX}NOTIFICATIONS_QSTASH_TOKEN"))
_GRACE = 60.0
"""Seconds that what a run holds outlives the patience with it: what is over is refused anyway."""


def life_of(patience: float) -> int:
    """Of a run's token and of the prompts it takes, which that token finishes: neither may end before the other."""
    return int((patience + _GRACE) * SECOND)


class RunAccess:
    """`url` is set by whoever serves over HTTP with tokens; elsewhere an agent starts its own server over stdio."""

    def __init__(self, settings: Settings, clock: Clock, zone: str) -> None:
        self._settings, self._clock, self._zone = settings, clock, zone
        self.url: str | None = settings.url or None

    @cached_property
    def _tokens(self) -> Tokens:
        return load_tokens(self._settings, self._clock)

    def __call__(self, claim: Claim, patience: float, depth: int) -> Access:
        """`depth` is that of what the run may schedule."""
        run, definition, _ = claim
        zone = zone_of(definition, self._zone)
        token = self._tokens.for_run(definition.owner, run.id, run.fence, depth, life_of(patience), zone)
        if self.url is not None:
            return Access(self.url, token)
        env = _handed_on(self._settings)
        env |= {RUN_TOKEN: token, RUN_FOLDER: str(Path.cwd()), f"{PREFIX}DB": _absolute(self._settings.path_of_db())}
        if self._settings.origin.file:
            env[CONFIG] = self._settings.origin.file  # the same one, also where it was changed and not trusted again
        return Access(None, token, (*_program(), *_options(self._settings)), env)


def _handed_on(settings: Settings) -> dict[str, str]:
    """What such a server needs of this environment: agents pass on little of theirs, and can read what they are given
    for it. Deliveries are a worker's, so that their credentials stay here, unless notifications are kept elsewhere; the
    secret that signs tokens is what it knows its own run's token by."""
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
    """Makes the secret when there is none yet. Without a store they can be signed, and checked by files alone."""
    from duetime.security.private_files import load_secret
    from duetime.security.revocations import FileRevocations, StoreRevocations
    from duetime.security.tokens import Tokens

    folder = settings.path_of_keys()
    secret = load_secret(folder, os.environ)
    files = FileRevocations(folder / "tokens", clock)
    revocations = files if store is None else StoreRevocations(store, files, clock)
    return Tokens(secret, folder, clock, issuer=settings.issuer, audience=settings.audience, revocations=revocations)


def runs_under_way(store: Store) -> Callable[[int, int], bool]:
    """A run is its token's as long as nobody else has it: a later attempt has another fence."""

    def is_under_way(run: int, fence: int) -> bool:
        found = store.run(RunId(run))
        return found is not None and found.fence == fence and found.status in (RunStatus.RUNNING, RunStatus.WAITING)

    return is_under_way


def stdio_command(settings: Settings) -> list[str]:
    """Return a command that does the same in every folder: what was said relative to this one is made absolute, and the
    settings file is named, because a server that is started elsewhere would find another one or none."""
    db, file = _absolute(settings.path_of_db()), settings.origin.file
    shown = without_password(db) if "://" in db else db
    store = [] if file and shown != db else ["--db", shown]  # a password is read from the file alone
    return [*_program(), *(["--config", file] if file else []), *store, *_options(settings, _found_anywhere)]


def header_command(settings: Settings) -> list[str]:
    """Return what prints the header with this machine's token, wherever it is started."""
    file = (settings.path_of_keys() / "local.token").absolute()
    return [sys.executable, "-P", "-m", "duetime", "token", "header", "--file", str(file)]


def _program() -> list[str]:
    """-P: the folder that a client starts it in is nobody's place to import from."""
    return [sys.executable, "-P", "-m", "duetime", "mcp"]


def _absolute(db: str) -> str:
    return db if "://" in db else str(Path(db).expanduser().resolve())


def _absolute_file(task: str) -> str:
    return str(Path(task).resolve()) if task.endswith(".py") else task


def _found_anywhere(task: str) -> str:
    """Return the path of a module that lies in this folder, which a server that is started elsewhere cannot find."""
    beside = Path(f"{task}.py").resolve()
    return str(beside) if beside.is_file() else _absolute_file(task)


def _options(settings: Settings, shown: Callable[[str], str] = _absolute_file) -> list[str]:
    """Return what the command line and the environment said; the file is read again by whoever is started."""
    tasks = () if settings.origin.file and settings.origin.tasks == settings.origin.file else settings.tasks
    named = [part for each in tasks for part in ("--tasks", shown(each))]
    tools = ["--tools", ",".join(settings.tools)] if settings.tools else []
    return [*named, *tools]
