"""The viewer's theme, time zone and density of lists: kept in cookies and set by plain forms, so that no script is
needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from zoneinfo import available_timezones

from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from duetime.engine.errors import DuetimeError
from duetime.service.vocabulary import known_zone

CHOICES: Final = {"theme": ("auto", "light", "dark"), "density": ("compact", "comfortable")}
"""What can be chosen, the usual value first. Compact is one line for each row of a list, comfortable as many as it
needs."""
_COOKIE: Final = "duetime_{}"
BROWSER_ZONE_COOKIE: Final = "duetime_zone"
"""Set by the script to the browser's own zone."""
ZONE_COOKIE: Final = "duetime_zone_choice"
_YEAR: Final = 365 * 24 * 3600


def choices_in(scope: Scope) -> dict[str, str]:
    """Return the theme and the density that the viewer has chosen, or the usual ones."""
    cookies = HTTPConnection(scope).cookies
    chosen = {name: cookies.get(_COOKIE.format(name), "") for name in CHOICES}
    return {name: chosen[name] if chosen[name] in values else values[0] for name, values in CHOICES.items()}


def zone_in(cookies: dict[str, str], name: str) -> str | None:
    """Return the zone in a cookie; None if there is none, or if it is not known here."""
    try:
        return known_zone(cookies[name]).key
    except (KeyError, DuetimeError):
        return None


def zone_choices(server: str, chosen: str | None) -> list[tuple[str, str]]:
    """Return the zones that the menu offers; the page of preferences offers all."""
    names = dict.fromkeys(name for name in (server, "UTC", chosen) if name is not None)
    return [("", "Browser's zone"), *((name, name) for name in names)]


def all_zones() -> list[str]:
    return sorted(name for name in available_timezones() if "/" in name or name == "UTC")


def keep(answer: RedirectResponse, chosen: Mapping[str, str], zone: str | None) -> Response:
    """Set the cookies for what was chosen. A default value deletes its cookie; no value keeps it."""
    for name, value in chosen.items():
        if value in CHOICES[name]:
            _set(answer, _COOKIE.format(name), "" if value == CHOICES[name][0] else value)
    if zone is not None:
        _set(answer, ZONE_COOKIE, zone)
    return answer


def _set(answer: Response, name: str, value: str) -> None:
    if value:
        answer.set_cookie(name, value, max_age=_YEAR, httponly=True, samesite="strict")
    else:
        answer.delete_cookie(name, httponly=True, samesite="strict")
