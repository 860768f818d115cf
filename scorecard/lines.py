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

SECURITY: tuple[Line, ...] = (
    Line(
        "fairness",
        "one owner with 50,000 due or 64 long jobs, another with a job and a reminder each second",
        "the other's p99 lateness below 1 s, nothing missed",
        "scorecard.fairness",
    ),
    Line(
        "strangers",
        "clients without a token from 199 addresses: idle, slow, huge, malformed",
        "users: p99 500 ms; memory within 100 MB; process alive",
        "scorecard.strangers",
    ),
    Line(
        "hostile-owners",
        "an owner with expensive triggers, pages, expressions, lists, JSON and ids",
        "each answered or refused within 1 s; other owners undisturbed",
        "scorecard.hostile_owners",
    ),
    Line(
        "fuzzing",
        "random input for MCP, HTTP, the command line, settings and stored rows",
        "no 500, 502 or 504, no hang, no exit",
        "scorecard.fuzzing",
    ),
)

LINES = RELIABILITY + SECURITY


def chosen(names: str, lines: tuple[Line, ...] = LINES) -> tuple[Line, ...]:
    """Return the lines with these names (separated by commas), or all of them when no name is given."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {line.name: line for line in lines}
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise SystemExit(f"no line is called {', '.join(unknown)}; choose among {', '.join(known)}")
    return tuple(known[name] for name in wanted) if wanted else lines
