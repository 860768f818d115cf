"""What `duetime doctor` says of tokens: whether the nodes of one store trust each other's."""

from __future__ import annotations

import os
from collections.abc import Iterator

from duetime.cli.checks import Check
from duetime.faces.http.secret import FILE, VARIABLE
from duetime.settings import Settings, is_postgres


def token_checks(settings: Settings) -> Iterator[Check]:
    """Revocations are in the store, which all nodes share; the secret is not, and has to be given to each."""
    if VARIABLE in os.environ:
        yield Check("ok", "tokens", f"signed with {VARIABLE}; what is revoked is kept in the store, for all nodes")
    elif is_postgres(settings.path_of_db()):
        yield Check(
            "warn",
            "tokens",
            f"signed with a secret of this machine, while the store may be shared by many: to have all nodes take the"
            f" same tokens and sign with the same keys, give each of them one {VARIABLE}",
        )
    else:
        made = "a secret" if (settings.path_of_keys() / FILE).exists() else "a secret that the first use makes"
        yield Check("ok", "tokens", f"signed with {made} in the data folder; what is revoked is kept in the store")
