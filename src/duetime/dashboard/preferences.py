"""The viewer's theme, time zone and density of lists: kept in cookies and set by plain forms, so that no script is
needed."""

from __future__ import annotations

from typing import Final
from zoneinfo import available_timezones

from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from duetime.engine.errors import DuetimeError
from duetime.service.vocabulary import known_zone

THEMES: Final = ("auto", "light", "dark")
THEME_COOKIE: Final = "duetime_theme"
DENSITIES: Final = ("compact", "comfortable")
"""One line for each row of a list, or as many as it needs."""
DENSITY_COOKIE: Final = "duetime_density"
BROWSER_ZONE_COOKIE: Final = "duetime_zone"
"""Set by the script to the browser's own zone."""
ZONE_COOKIE: Final = "duetime_zone_choice"
_YEAR: Final = 365 * 24 * 3600


def theme_of(scope: Scope) -> str:
    chosen = HTTPConnection(scope).cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else "auto"


def density_of(scope: Scope) -> str:
    chosen = HTTPConnection(scope).cookies.get(DENSITY_COOKIE, "")
    return chosen if chosen in DENSITIES else DENSITIES[0]


def zone_in(cookies: dict[str, str], name: str) -> str | None:
    """Return the zone in a cookie; None if there is none, or if it is not known here."""
    try:
        return known_zone(cookies[name]).key
    except (KeyError, DuetimeError):
        return None


def zone_choices(server: str) -> list[tuple[str, str]]:
    """Return the zones that the menu offers; the page of preferences offers all."""
    named = dict.fromkeys([server, "UTC"])
    return [("", "Browser's zone"), *((name, name) for name in named)]


def all_zones() -> list[str]:
    return sorted(name for name in available_timezones() if "/" in name or name == "UTC")


def keep(answer: RedirectResponse, theme: str, zone: str | None, density: str) -> Response:
    """Set the cookies for what was chosen. A default value deletes its cookie; no value keeps it."""
    if theme in THEMES:
        _set(answer, THEME_COOKIE, "" if theme == "auto" else theme)
    if density in DENSITIES:
        _set(answer, DENSITY_COOKIE, "" if density == DENSITIES[0] else density)
    if zone is not None:
        _set(answer, ZONE_COOKIE, zone)
    return answer


def _set(answer: Response, name: str, value: str) -> None:
    if value:
        answer.set_cookie(name, value, max_age=_YEAR, httponly=True, samesite="strict")
    else:
        answer.delete_cookie(name, httponly=True, samesite="strict")
