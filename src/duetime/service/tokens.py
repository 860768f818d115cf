"""The tokens of this installation, from its settings and its store."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from duetime.engine.clock import SECOND, Clock, Instant
from duetime.engine.model import RunId, RunStatus
from duetime.engine.store import Store
from duetime.engine.store_interfaces import Revocations
from duetime.service.vocabulary import iso_local
from duetime.settings import Settings

if TYPE_CHECKING:
    from duetime.security.claims import Grant
    from duetime.security.tokens import Tokens


def load_tokens(settings: Settings, clock: Clock, store: Revocations) -> Tokens:
    """Return the tokens; create the secret if there is none."""
    from duetime.security.private_files import load_secret
    from duetime.security.revocations import StoreRevocations
    from duetime.security.tokens import Tokens

    folder = settings.path_of_keys()
    secret = load_secret(folder, os.environ)
    revocations = StoreRevocations(store, clock)
    return Tokens(secret, folder, clock, issuer=settings.issuer, audience=settings.audience, revocations=revocations)


def grant_view(grant: Grant, zone: str) -> dict[str, Any]:
    """Return what interfaces show of a token."""
    return {
        "id": grant.id,
        "subject": grant.subject,
        "owner": grant.owner,
        "timezone": grant.zone,
        "scope": " ".join(grant.scopes),
        "issued": iso_local(Instant(grant.issued * SECOND), zone),
        "expires": iso_local(Instant(grant.expires * SECOND), zone),
    }


def runs_under_way(store: Store) -> Callable[[int, int], bool]:
    """Return a function that checks whether a token's run is still in progress; a later attempt has another fence."""

    def is_under_way(run: int, fence: int) -> bool:
        row = store.run(RunId(run))
        return row is not None and row.fence == fence and row.status in (RunStatus.RUNNING, RunStatus.WAITING)

    return is_under_way
