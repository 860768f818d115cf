"""Draws the comparisons as an SVG of horizontal bars, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.lines import Figure, Line

WIDTH, LEFT, RIGHT = 760, 190, 120
BAR, GAP, TITLE = 18, 6, 34
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.ours { fill: #0969da }
.peer { fill: #8c959f }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .ours { fill: #58a6ff }
  .peer { fill: #6e7681 }
}
"""


def plot(lines: Sequence[Line]) -> str:
    """Return one panel for each workload and store that was measured beside something else."""
    y, parts = 0, list[str]()
    for (workload, store, unit), figures in _panels(lines).items():
        better = "more is better" if unit.endswith("/s") else "less is better"
        place = f" on {store}" if store else ""
        y += TITLE
        parts.append(f'<text class="title" x="0" y="{y - 10}">{escape(f"{workload}{place}: {unit}, {better}")}</text>')
        largest = max(figure.median or 0.0 for figure in figures) or 1.0
        for number, figure in enumerate(figures):
            parts.append(_bar(figure, y, largest, "peer" if number else "ours"))
            y += BAR + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 10}" width="{WIDTH}" role="img">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _panels(lines: Sequence[Line]) -> dict[tuple[str, str, str], list[Figure]]:
    """Return the measured figures of each panel, ours first."""
    panels: dict[tuple[str, str, str], list[Figure]] = {}
    for line in lines:
        if line.beside is None or line.value is None:
            continue
        figures = panels.setdefault((line.workload, line.store, line.unit), [])
        figures += [each for each in (line.ours, line.beside) if each not in figures]
    return panels


def _bar(figure: Figure, y: int, largest: float, kind: str) -> str:
    value = figure.median or 0.0
    length = max(1.0, value / largest * (WIDTH - LEFT - RIGHT))
    middle = y + BAR - 5
    shown = f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"
    return (
        f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(figure.name)}</text>'
        f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>'
        f'<text x="{LEFT + length + 6:.1f}" y="{middle}">{shown}</text>'
    )
