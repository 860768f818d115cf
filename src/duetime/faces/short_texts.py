"""Long texts in lists: a list shows their beginnings, and whoever wants one whole reads that one alone."""

from __future__ import annotations

from typing import Any, Final

LONGEST: Final = 16 * 1024
"""Characters of one text that a list looks at and shows."""


def shortened(value: Any) -> Any:
    """A copy in which every long text is cut and says so."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}... (cut: {len(value)} characters in all)"
    if isinstance(value, dict):
        return {name: shortened(inner) for name, inner in value.items()}
    return [shortened(inner) for inner in value] if isinstance(value, list) else value
