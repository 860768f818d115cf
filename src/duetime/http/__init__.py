"""The HTTP server: authentication, limits, and the routes that it serves."""

from __future__ import annotations


def url_for(address: str, port: int) -> str:
    """Return the URL for a client on this machine; a wildcard address such as 0.0.0.0 becomes loopback."""
    named = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 - compared, not bound
    return f"http://[{named}]:{port}" if ":" in named else f"http://{named}:{port}"
