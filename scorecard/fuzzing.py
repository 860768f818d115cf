"""Random input for MCP, HTTP, the command line, settings and stored rows: nothing fails inside, hangs or exits."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from scorecard.fuzz_values import Values
from scorecard.line import Result, Scale, Tell
from scorecard.mcp_client import McpClient
from scorecard.serving import Client, Server, environment, serving

SEED = int(os.environ.get("SEED", "20261115"))
FAULTY = frozenset({500, 502, 504})
JOB = {
    "kind": "job",
    "name": "fuzzed",
    "trigger": {"type": "cron", "expression": "0 9 * * *", "timezone": "UTC"},
    "payload": {"task": "keep", "args": ["x"]},
    "policy": {"max_attempts": 2, "overlap": "skip", "catch_up": "once", "timeout_seconds": 5},
    "idempotency_key": "k",
}
SLOW_TOOLS = {"send_push_notification"}
"""Tools whose calls wait up to five seconds for a delivery."""


def measure(scale: Scale, tell: Tell) -> Result:
    total = scale.of(50_000, 400)
    counts = {"http": total * 12 // 20, "mcp": total * 5 // 20, "settings": total // 20}
    counts |= {"rows": total // 20, "cli": total - sum(counts.values()) - total // 20}
    failures: list[str] = []
    with serving("max_runs_per_hour = 0\ndrain = 0.1\n") as server:
        failures += _http(server, counts["http"], tell)
        failures += _mcp(server, counts["mcp"], tell)
        if not server.alive:
            failures.append("the server ended")
        failures += [line for line in server.log.splitlines() if "Traceback" in line][:3]
    failures += _settings(counts["settings"], tell)
    failures += _rows(counts["rows"], tell)
    failures += _cli(counts["cli"], tell)
    shown = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    return Result({"inputs": sum(counts.values())}, f"faults {len(failures)}; {shown}; seed {SEED}", tuple(failures))


# -- HTTP -------------------------------------------------------------------------------------------------------------


def _http(server: Server, count: int, tell: Tell) -> Iterator[str]:
    client = server.client("fuzz")
    client.timeout = 20
    routes = list(_routes(client))
    for number in range(count):
        values = Values(SEED + number)
        method, path = values.chance.choice(routes)
        filled = _filled(path, values)
        more, raw = _sent(method, values)
        tell(f"http {number:,} of {count:,}")
        yield from _asked(client, method, filled, more, raw, f"seed {SEED + number}")


def _routes(client: Client) -> Iterator[tuple[str, str]]:
    for path, item in client.ask("GET", "/api/openapi.json").json["paths"].items():
        if not path.endswith("/events"):  # a stream stays open
            yield from ((method.upper(), f"/api{path}") for method in item)
    for path in ("/", "/schedules", "/schedules/{id}", "/runs/{id}", "/timeline", "/new", "/inbox", "/dead-letters"):
        yield "GET", path
    for path in ("schedules", "messages/{id}", "dlq", "events", "logs", "schedules/{id}", "dlq/{id}"):
        yield "GET", f"/v2/{path}"
    yield from [("POST", "/v2/schedules/https://example.org/"), ("POST", "/v2/batch"), ("DELETE", "/v2/messages")]


def _filled(path: str, values: Values) -> str:
    from urllib.parse import quote

    filled = path.replace("{id}", quote(values.text(), safe="") or "x")
    if values.chance.random() < 0.5:
        names = ("limit", "cursor", "status", "kind", "text", "from", "to", "owner", "count", "order", "zone", "since")
        query = [f"{values.chance.choice(names)}={quote(values.text())}" for _ in range(values.chance.randrange(1, 4))]
        filled += "?" + "&".join(query)
    return filled


def _sent(method: str, values: Values) -> tuple[dict[str, str], bytes | None]:
    headers: dict[str, str] = {}
    if values.chance.random() < 0.2:
        names = ("Idempotency-Key", "If-Match", "Upstash-Cron", "Upstash-Delay", "Upstash-Retries", "Accept", "Range")
        text = values.text().encode("ascii", "ignore").decode()
        headers[values.chance.choice(names)] = "".join(letter for letter in text if letter.isprintable())[:200]
    if method == "GET":
        return headers, None
    headers["Content-Type"] = values.chance.choice(["application/json"] * 8 + ["text/plain", "multipart/form-data", ""])
    changed = values.mutated(JOB)
    return headers, values.broken_json(changed) if values.chance.random() < 0.2 else json.dumps(changed).encode()


def _asked(
    client: Client, method: str, path: str, headers: dict[str, str], raw: bytes | None, about: str
) -> Iterator[str]:
    try:
        reply = client.ask(method, path, None, headers, raw)
    except OSError as error:
        client.close()
        yield f"{about}: {method} {path[:100]}: {error!r}"
        return
    if reply.status in FAULTY:
        yield f"{about}: {method} {path[:100]} {str(raw)[:200]}: {reply.status} {reply.text[:200]}"


# -- MCP --------------------------------------------------------------------------------------------------------------


def _mcp(server: Server, count: int, tell: Tell) -> Iterator[str]:
    agent = McpClient(server, "fuzz")
    agent.http.timeout = 20
    tools = [tool for tool in agent.tools() if tool["name"] not in SLOW_TOOLS]
    for number in range(count):
        values = Values(SEED + number)
        tool = values.chance.choice(tools)
        given = _arguments(tool["inputSchema"], values)
        tell(f"mcp {number:,} of {count:,}")
        try:
            answer = agent.call(tool["name"], given)
        except (OSError, RuntimeError) as error:
            agent.http.close()
            yield f"seed {SEED + number}: {tool['name']} {str(given)[:200]}: {error!r}"
            continue
        if "-32603" in answer or "failed inside Duetime" in answer:
            yield f"seed {SEED + number}: {tool['name']} {str(given)[:200]}: {answer[:200]}"


def _arguments(schema: dict[str, Any], values: Values) -> Any:
    required = set(schema.get("required", ()))
    chosen = [name for name in schema["properties"] if name in required or values.chance.random() < 0.3]
    given = {name: values.value() for name in chosen}
    return values.value() if values.chance.random() < 0.03 else given


# -- settings, rows, command line -------------------------------------------------------------------------------------


def _settings(count: int, tell: Tell) -> Iterator[str]:
    from dataclasses import fields

    from duetime.engine.errors import DuetimeError
    from duetime.settings import Settings, load_settings

    names = [each.name for each in fields(Settings)]
    with tempfile.TemporaryDirectory(prefix="duetime-fuzz-") as folder:
        for number in range(count):
            values = Values(SEED + number)
            tell(f"settings {number:,} of {count:,}")
            (Path(folder) / "duetime.toml").write_bytes(_toml(names, values))
            try:
                load_settings(environment={}, folder=Path(folder))
            except DuetimeError:
                continue
            except Exception as error:
                yield f"settings, seed {SEED + number}: {error!r}"


def _toml(names: list[str], values: Values) -> bytes:
    tables = ("", "[notifications]\n", "[agents.a]\n", "[channels.b]\n", "[heartbeat]\n", "[agents]\n")
    lines = [values.chance.choice(tables)]
    for _ in range(values.chance.randrange(1, 4)):
        value = values.chance.choice(
            [json.dumps(values.text()), str(values.chance.choice((0, -1, 1.5, 2**70))), "[1]", "{}"]
        )
        lines.append(f"{values.chance.choice([*names, 'url', 'type', 'x'])} = {value}\n")
    text = "".join(lines).encode("utf-8", "surrogatepass")
    return values.chance.randbytes(40) if values.chance.random() < 0.05 else text


def _rows(count: int, tell: Tell) -> Iterator[str]:
    """Edit stored rows at random: their schedule may break, but the worker and all others go on."""
    import apsw

    from duetime.testing import Simulation

    with tempfile.TemporaryDirectory(prefix="duetime-fuzz-") as folder:
        path = str(Path(folder) / "rows.db")
        with Simulation(datetime(2026, 3, 1, tzinfo=UTC), url=path) as simulation:
            for begin in range(0, count, 50):
                tell(f"rows {begin:,} of {count:,}")
                for number in range(begin, min(count, begin + 50)):
                    simulation.duetime.schedule("echo", args=[str(number)], every=timedelta(minutes=1))
                _spoil(apsw.Connection(path), Values(SEED + begin))
                try:
                    simulation.advance(timedelta(minutes=2))
                except Exception as error:
                    yield f"rows, seed {SEED + begin}: the worker stopped with {error!r}"
                    return


def _spoil(connection: Any, values: Values) -> None:
    """Change rows through apsw alone: another SQLite library in this process would drop its locks."""
    connection.setbusytimeout(5000)
    ids = [row[0] for row in connection.execute("SELECT id FROM schedules ORDER BY id DESC LIMIT 40")]
    for schedule in ids:
        column = values.chance.choice(("trigger", "payload", "policy"))
        text = values.chance.choice([values.text(), json.dumps(values.value()), '{"type":"cron"}', "{"])
        connection.execute(f"UPDATE schedules SET {column} = ? WHERE id = ?", (text, schedule))  # noqa: S608 - three known names
    connection.close()


def _cli(count: int, tell: Tell) -> Iterator[str]:
    from duetime.cli.main import main

    with tempfile.TemporaryDirectory(prefix="duetime-fuzz-") as folder, _standing_in(Path(folder)):
        for number in range(count):
            line = _command_line(Values(SEED + number))
            tell(f"command lines {number:,} of {count:,}")
            out, err = io.StringIO(), io.StringIO()
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    code = main(line)
            except SystemExit as exit:
                code = exit.code if isinstance(exit.code, int) else 0
            except BaseException as error:
                yield f"cli, seed {SEED + number}: {line}: {error!r}"
                continue
            if "duetime: unexpected " in err.getvalue() or not 0 <= code <= 5:
                yield f"cli, seed {SEED + number}: {line}: exit {code}: {err.getvalue()[:300]}"


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("job", "add"), ("job", "list"), ("job", "show"), ("job", "edit"), ("job", "pause"), ("job", "cancel"),
    ("prompt", "add"), ("prompt", "list"), ("prompt", "edit"), ("notify", "add"), ("notify", "list"), ("inbox",),
    ("dead", "list"), ("dead", "show"), ("run", "list"), ("run", "show"), ("next",), ("explain",), ("db", "status"),
    ("export",), ("token", "list"),
)  # fmt: skip
OPTIONS = (
    "--task", "--cron", "--every", "--at", "--rrule", "--tz", "--json", "--limit", "--status", "--max-attempts",
    "--topic", "--count", "--name", "--overlap", "--catch-up", "--timeout",
)  # fmt: skip


def _command_line(values: Values) -> list[str]:
    line = list(values.chance.choice(COMMANDS))
    for _ in range(values.chance.randrange(4)):
        line += [values.chance.choice(OPTIONS)] if values.chance.random() < 0.5 else []
        line.append(values.text().replace("\x00", ""))  # no shell can pass a NUL on
    return line


@contextlib.contextmanager
def _standing_in(folder: Path) -> Iterator[None]:
    """Run in an empty folder, with nothing of the caller's settings."""
    before, environ = Path.cwd(), dict(os.environ)
    (folder / "settings.toml").write_text('timezone = "UTC"\n')
    os.chdir(folder)
    os.environ.update(environment(folder))
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environ)
