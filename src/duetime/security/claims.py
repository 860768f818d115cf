"""Claims of tokens, which are validated when they are read, whoever signed the token, and before they are written into
one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from duetime.engine.clock import DAY, SECOND
from duetime.engine.encoding import json_object
from duetime.engine.errors import DuetimeError, InvalidInput, UnknownZone
from duetime.engine.scopes import ACTIONS, GROUPS, Scopes, group_of
from duetime.engine.times.zones import known_zone

OPERATOR = "operator"
SCOPES = (OPERATOR, *ACTIONS)
LONGEST_LIFE = 3650 * DAY
LONGEST_NAME = 200

ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_NAMED_SCOPE = re.compile(r"(agent|kind):[!#-\[\]-~]{1,100}")
"""A scope that names an agent or a kind, with the characters that the standard allows in a scope."""
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,120}")


class InvalidToken(DuetimeError):
    """The token is not valid."""

    code = "invalid_token"


class Grant(NamedTuple):
    """The claims of a valid token, or of the record of one that was issued."""

    id: str
    subject: str
    owner: str
    email: str | None
    zone: str | None
    scopes: tuple[str, ...]
    depth: int
    issued: int
    expires: int
    begins: int = 0
    run: int = 0
    """The agent's run that the token is for; the token expires with the run."""
    fence: int = 0
    parent: str = ""
    """The token from which this one was made, and with which it expires."""
    purpose: str = ""
    """`browser` for a session; in the record of a token also `calendar`. Empty for programs that send it with every
    request."""
    root: str = ""
    """For a session: the token from which its parent was made, and with which both expire."""
    allowed: str | None = None
    """For a run's token: what the run may use, as JSON; None for other tokens."""
    revoked: bool = False
    """In the record of a token: whether it was revoked."""

    @property
    def operator(self) -> bool:
        return OPERATOR in self.scopes

    @property
    def limits(self) -> Scopes:
        """The scopes that limit the token; scopes of other programs are ignored."""
        return tuple(each for each in self.scopes if each in ACTIONS or (":" in each and group_of(each) in GROUPS))


# -- reading ----------------------------------------------------------------------------------------------------------


def grant_of(claims: Mapping[str, Any]) -> Grant:
    subject = _text(claims, "sub")
    owner = _text(claims, "owner", otherwise=subject)
    zone = claims.get("zoneinfo")
    try:
        zone = None if zone is None else known_zone(zone).key
    except UnknownZone as error:
        raise InvalidToken(f"the token's zoneinfo cannot be used: {error.message}") from None
    scope = claims.get("scope", "")
    id = claims["jti"]
    if not isinstance(scope, str) or not isinstance(id, str) or not ID.fullmatch(id):
        raise InvalidToken("the token's scope or jti cannot be used")
    email = claims.get("email")
    return Grant(
        id,
        subject,
        owner,
        email if isinstance(email, str) else None,
        zone,
        (*scope.split(), *_scopes_of_run(claims)),
        _number(claims, "depth", otherwise=0),
        _number(claims, "iat"),
        _number(claims, "exp"),
        _number(claims, "nbf", otherwise=0),
        _number(claims, "run", otherwise=0),
        _number(claims, "fence", otherwise=0),
        _origin(claims, "parent"),
        root=_origin(claims, "root"),
        allowed=_read_allowed(claims),
    )


def _text(claims: Mapping[str, Any], name: str, *, otherwise: str = "") -> str:
    value = claims.get(name, otherwise)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME or not value.isprintable():
        raise InvalidToken(f"the token's {name} cannot be used")
    return value


def _origin(claims: Mapping[str, Any], name: str) -> str:
    id = claims.get(name, "")
    if not isinstance(id, str) or (id and not ID.fullmatch(id)):
        raise InvalidToken(f"the token's {name} cannot be used")
    return id


def _read_allowed(claims: Mapping[str, Any]) -> str | None:
    """Return what a run may use. A run's token without this claim was made by an older version and allows nothing."""
    allowed = claims.get("allowed", "{}" if claims.get("run") else None)
    if allowed is not None and not isinstance(allowed, str):
        raise InvalidToken("the token's allowed cannot be used")
    return allowed


def _scopes_of_run(claims: Mapping[str, Any]) -> Scopes:
    """Return the scopes of the token that stored the prompt of a run, which are part of what the run may use."""
    return tuple(map(str, (json_object(_read_allowed(claims) or "") or {}).get("scopes", ())))


def _number(claims: Mapping[str, Any], name: str, *, otherwise: int | None = None) -> int:
    value = claims.get(name, otherwise)
    if type(value) is not int or not 0 <= value < 2**40:
        raise InvalidToken(f"the token's {name} is not a usable number")
    return value


# -- writing ----------------------------------------------------------------------------------------------------------


def checked_name(what: str, value: str) -> str:
    if not 0 < len(value) <= LONGEST_NAME or not value.isprintable() or value != value.strip():
        raise InvalidInput(field=what, problem=f"must be 1 to {LONGEST_NAME} characters that can be printed")
    return value


def checked_email(value: str) -> str:
    if not _EMAIL.fullmatch(value):
        raise InvalidInput(field="email", problem="must be an address such as ada@example.org")
    return value


def checked_scopes(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in SCOPES and not _NAMED_SCOPE.fullmatch(name):
            known = ", ".join((*SCOPES, "agent:NAME", "kind:NAME"))
            raise InvalidInput(field="scope", problem=f"there is no scope {name!r}; choose from {known}")
    return sorted(set(names))


def seconds_of(life: int) -> int:
    if not SECOND <= life <= LONGEST_LIFE:
        raise InvalidInput("expires-in: must be between 1s and 3650d", field="expires_in")
    return life // SECOND
