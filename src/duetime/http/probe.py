"""Ask an address whether Duetime answers there. It needs nothing of the web server, so that commands start quickly."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

SERVICE = "duetime"
"""What `/healthz` answers as its service."""
_PATIENCE = 2.0
_MOST = 1000


def answers(url: str) -> bool:
    """Return whether a Duetime server answers at this address."""
    from http.client import HTTPConnection, HTTPException

    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=_PATIENCE)
    try:
        connection.request("GET", "/healthz")
        said = json.loads(connection.getresponse().read(_MOST))
    except (OSError, HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return isinstance(said, dict) and said.get("service") == SERVICE
