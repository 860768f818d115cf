"""Gives an agent's run access to Duetime's tools: its own token, and the server or command to use it with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from duetime.engine.clock import SECOND, Clock
from duetime.engine.policy.claim import Claim
from duetime.engine.store_interfaces import Revocations
from duetime.kinds.prompts.agent import Access
from duetime.kinds.prompts.runner import zone_of
from duetime.service.tokens import load_tokens
from duetime.settings import CONFIG, PREFIX, Settings, environment_names, is_postgres
from duetime.settings.kind_settings import kind_settings
from duetime.settings.own_commands import RUN_TOKEN, stdio_server

if TYPE_CHECKING:
    from duetime.security.tokens import Tokens

_ALWAYS = frozenset(("XDG_DATA_HOME", "PYTHONPATH", CONFIG, f"{PREFIX}SECRET"))
_GRACE = 60.0
"""Seconds that a run's token and leases outlive its timeout; a finished run is refused anyway."""


def life_of(patience: float) -> int:
    """Return the lifetime of a run's token and of its leases on prompts, which is the same because the token finishes
    the prompts."""
    return int((patience + _GRACE) * SECOND)


class RunAccess:
    """Creates access for runs. An HTTP server with tokens sets `url`; otherwise, an agent starts a stdio server."""

    def __init__(self, settings: Settings, clock: Clock, zone: str, store: Revocations) -> None:
        self._settings, self._clock, self._zone, self._store = settings, clock, zone, store
        self.url: str | None = settings.url or None

    @cached_property
    def _tokens(self) -> Tokens:
        return load_tokens(self._settings, self._clock, self._store)

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
    """Return access to a stdio server of our own."""
    command, environment = stdio_server(settings)
    return Access(None, token, tuple(command), {**env, **environment})


def _server_variables(settings: Settings) -> dict[str, str]:
    """Return the variables that a stdio server needs: agents pass on few of their own, and can read those given to
    them. The signing secret is included, because the server verifies its run's token with it."""
    in_postgres, settable = is_postgres(settings.path_of_db()), environment_names()
    kinds = kind_settings()

    def is_needed(name: str) -> bool:
        for each in kinds:
            if (needed := each.needs_variable(settings, name)) is not None:
                return needed
        return in_postgres if name.startswith("PG") else name in _ALWAYS or name in settable

    return {name: value for name, value in os.environ.items() if is_needed(name)}
