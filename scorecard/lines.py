"""The lines of the scorecard, in the order of the table."""

from __future__ import annotations

from scorecard.line import Line

RELIABILITY: tuple[Line, ...] = (
    Line(
        "kills",
        "processes killed at named steps of create, claim, run, record, rescue, migrate; both stores",
        "600 kills; acknowledged writes lost: 0",
        "scorecard.kills",
    ),
    Line(
        "simulation",
        "deterministic simulation with faults by seed",
        "10,000 seeds, 1,000,000 firings; nothing lost, doubled or early; 100 replayed seeds identical",
        "scorecard.simulation",
    ),
    Line(
        "power-cut",
        "images of a SQLite store as a power cut may leave it",
        "5,000 images; integrity holds; acknowledged writes lost: 0",
        "scorecard.power_cut",
    ),
)

SECURITY: tuple[Line, ...] = ()

LINES = RELIABILITY + SECURITY


def chosen(names: str, lines: tuple[Line, ...] = LINES) -> tuple[Line, ...]:
    """Return the lines with these names (separated by commas), or all of them when no name is given."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {line.name: line for line in lines}
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise SystemExit(f"no line is called {', '.join(unknown)}; choose among {', '.join(known)}")
    return tuple(known[name] for name in wanted) if wanted else lines
