"""Which owners may use the agents and channels that the operator set up. For all others these do not exist."""

from __future__ import annotations

from collections.abc import Collection

LOCAL = "local"
"""The user of this machine: the owner of what is created without a token, and the holder of what it takes."""
EVERYBODY = "*"
"""Stands for all owners."""
ONLY_LOCAL = (LOCAL,)


def is_open_to(owners: Collection[str], owner: str) -> bool:
    """Return whether an owner is among the `owners` that a settings table names."""
    return owner in owners or EVERYBODY in owners
