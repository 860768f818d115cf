"""The limits of the HTTP server, from the settings."""

from __future__ import annotations

from duetime.http.connection_limits import ConnectionLimits
from duetime.service.owner_limits import Shares
from duetime.settings import Settings


def connection_limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        total=settings.max_connections,
        per_address=settings.max_connections_per_address,
        trusted_proxies=settings.trusted_proxies,
        head_seconds=settings.head_timeout,
        body_seconds=settings.body_timeout,
    )


def owner_shares(settings: Settings) -> Shares:
    return Shares(
        requests=settings.max_requests_at_once,
        sessions=settings.max_sessions,
        streams=settings.max_streams,
        watches=settings.max_watches,
    )
