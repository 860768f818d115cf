"""Where a server is reached, for those who only tell others: without the server itself, which is slow to import."""

from __future__ import annotations


def url_for(address: str, port: int) -> str:
    """As a client on this machine writes it: an address that means all of them is none."""
    named = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 - compared, not bound
    return f"http://[{named}]:{port}" if ":" in named else f"http://{named}:{port}"
