"""The installed package: its version, and the address of its documentation."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    return _about()[0]


@cache
def documentation() -> str:
    """Return the address of the documentation that the package names; empty if it names none."""
    return _about()[1]


def _about() -> tuple[str, str]:
    from importlib.metadata import PackageNotFoundError, metadata  # which few commands need

    try:
        package = metadata("duetime")
    except PackageNotFoundError:
        return "from source", ""
    links = (each.partition(", ") for each in package.get_all("Project-URL") or ())
    return str(package["Version"]), next((address for name, _, address in links if name == "Documentation"), "")
