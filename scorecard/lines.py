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
        "chaos",
        "4 workers: SIGKILL, SIGSTOP beyond the lease, PostgreSQL restarted and frozen, connections cut, clocks set",
        "60,000 occurrences, 1,000 faults; lost 0, doubled 0, early 0; repeats only where a fault explains them, by"
        " chance at most 12 %",
        "scorecard.chaos",
    ),
    Line(
        "planted-bugs",
        "bugs planted by short patches, looked for by the history checker with HTTP, exports and side effects alone",
        "22 of 22 caught, and nothing found without a bug",
        "scorecard.planted",
    ),
    Line(
        "simulation",
        "deterministic simulation with faults by seed",
        "10,000 seeds, 1,000,000 firings; nothing lost, doubled or early; 100 replayed seeds identical",
        "scorecard.simulation",
    ),
    Line(
        "edits",
        "random edits (at once or up to 40 days ahead), pauses, moves and retries over 60 simulated days by seed",
        "1,000 seeds; every occurrence is a run or in one row with a reason; active means a next time; 20 replayed"
        " seeds identical",
        "scorecard.edits",
    ),
    Line(
        "frozen",
        "workers and children frozen beyond the lease, then resumed; both stores",
        "100 frozen; stale writes 0; a resumed child ends within 0.2 s",
        "scorecard.frozen",
    ),
    Line(
        "power-cut",
        "images of a SQLite store as a power cut may leave it",
        "5,000 images; integrity holds; acknowledged writes lost: 0",
        "scorecard.power_cut",
    ),
    Line(
        "io-faults",
        "a full, failing or read-only disk, a held lock, no descriptors, no memory",
        "300 faults; clear errors; recovery within 5 s without a restart; no schedule broken",
        "scorecard.io_faults",
    ),
    Line(
        "failover",
        "a PostgreSQL primary with a synchronous standby: killed and promoted, away for 20 s, hung and promoted; 4"
        " workers and a creator",
        "10,000 occurrences each; acknowledged and lost 0, doubled outcomes 0; work goes on within 5 s, hung 15 s",
        "scorecard.failover",
    ),
    Line(
        "executors",
        "jobs of 0.3 s on real clusters (Dask, Celery with Redis, Ray): a worker, Duetime, and the scheduler or broker"
        " killed; many out at once on Dask",
        "1,000 jobs on each, every run recorded once; 10,000 out at once: below 150 MB and 3 ms of processor time each",
        "scorecard.executors",
    ),
    Line(
        "memory",
        "one worker on each store, with triggers, inputs and errors that never repeat, and history trimmed by bytes",
        "1,000,000 runs on each store; in the second half, memory grows by less than 10 MB",
        "scorecard.memory",
    ),
    Line(
        "one-instant",
        "100,000 due at one instant, and a client with 5 requests a second",
        "each once; last start within 60 s; the client's p99 within 500 ms",
        "scorecard.one_instant",
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
        "bodies",
        "an owner who sends bodies that are expensive to parse, on 8 connections, through every interface",
        "others: p99 200 ms for each body, no run over 1 s late; memory within 100 MB",
        "scorecard.bodies",
    ),
    Line(
        "fuzzing",
        "random input for MCP, HTTP, the command line, settings and stored rows",
        "no 500, 502 or 504, no hang, no exit",
        "scorecard.fuzzing",
    ),
    Line(
        "tenants",
        "every tool, route, resource, feed and stream, enumerated from the code, with another owner's ids",
        "identical to what does not exist",
        "scorecard.tenants",
    ),
    Line(
        "tokens",
        "forged, revoked, used and signed-out tokens, links and sessions on two nodes with separate data folders",
        "all refused on every node",
        "scorecard.tokens",
    ),
    Line(
        "overreach",
        "the token of an agent's run: hidden values, limits, the web, its owner's prompts; API, MCP, QStash's API",
        "succeeded: 0",
        "scorecard.overreach",
    ),
    Line(
        "secrets",
        "canaries in arguments, errors, URLs, headers, settings and the environment",
        "none in logs, answers, pages, alerts, service files, printed commands",
        "scorecard.canaries",
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
