"""Scopes of a token: the actions `read`, `write` and `delete`, and what they apply to, such as `kind:job` and
`agent:claude`. Of a group that no scope names, everything is allowed, so no scopes at all mean no limits."""

from __future__ import annotations

from duetime.engine.errors import Refused

Scopes = tuple[str, ...]
READ, WRITE, DELETE = ACTIONS = ("read", "write", "delete")
"""`write` creates, changes and runs; `delete` deletes, cancels and stops. Both include `read`, because every answer
shows what it is about."""
GROUPS = ("", "agent", "kind")


class OutOfScope(Refused):
    """The scopes of the token do not include this."""

    code = "scope"


def group_of(scope: str) -> str:
    """Return `agent` for `agent:claude`, and an empty text for an action."""
    return scope.partition(":")[0] if ":" in scope else ""


def of_group(scopes: Scopes, group: str) -> list[str]:
    return [scope for scope in scopes if group_of(scope) == group]


def lacking(scopes: Scopes, *needed: str) -> str | None:
    """Return the first scope that is needed and not included."""
    return next((each for each in needed if each not in (READ, *(of_group(scopes, group_of(each)) or needed))), None)


def check(scopes: Scopes, *needed: str) -> None:
    if (scope := lacking(scopes, *needed)) is not None:
        words = f"this needs the scope {scope}, and the token has only {' '.join(scopes)}"
        raise OutOfScope(f"{words}; ask the operator for a token with that scope")


def common(first: Scopes, second: Scopes) -> Scopes:
    """Return scopes that include what both include. A group of which nothing is left keeps an entry that matches
    nothing, because without one it would include everything."""
    scopes: list[str] = []
    for group in GROUPS:
        one, other = of_group(first, group), of_group(second, group)
        both = [scope for scope in one if scope in other]
        scopes += (both or [f"{group}:" if group else READ]) if one and other else one or other
    return tuple(scopes)
