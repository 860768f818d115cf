"""Names and colours of kinds on pages. A colour is one of eight CSS classes, since pages have no inline styles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from duetime.service.kind_spec import known_specs

COLOURS: Final = 8


def kind_class(kind: str) -> str:
    """Return the CSS class of a kind: its own colour, or else one that no other kind has chosen, if there is one."""
    specs = known_specs()
    if kind not in specs:
        return ""
    if specs[kind].colour:
        return f"colour-{specs[kind].colour}"
    chosen = {spec.colour for spec in specs.values()}
    free = [number for number in range(1, COLOURS + 1) if number not in chosen] or [COLOURS]
    without = [name for name, spec in specs.items() if not spec.colour]
    return f"colour-{free[without.index(kind) % len(free)]}"


def in_order(kinds: Iterable[str]) -> list[str]:
    """Return the kinds in the order of their specs, followed by those that this process does not know."""
    present = dict.fromkeys(kinds)
    return [
        *(name for name in known_specs() if name in present),
        *(name for name in present if name not in known_specs()),
    ]


def plural_of(kind: str) -> str:
    spec = known_specs().get(kind)
    return f"{kind}s" if spec is None else spec.plural


def count_of(number: int, kind: str) -> str:
    return f"{number:,} {kind if number == 1 else plural_of(kind)}"
