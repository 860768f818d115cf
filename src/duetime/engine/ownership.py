"""Who may use what the operator set up: agents and channels. For everybody else it does not exist."""

from __future__ import annotations

from collections.abc import Collection

LOCAL = "local"
"""Whoever sits at this machine: the owner of what is made without a token, and the holder of what it takes."""
EVERYBODY = "*"
"""Stands for all owners."""
ONLY_LOCAL = (LOCAL,)


def is_open_to(owners: Collection[str], owner: str) -> bool:
    """Return whether an owner is among those that a table of the settings names."""
    return owner in owners or EVERYBODY in owners
