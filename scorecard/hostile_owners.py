"""An owner with a token who asks for what is expensive: every request is answered or refused in time, and an ordinary
owner beside it notices nothing. Pages to fetch are among it: one job fetches a page that is made to be slow to read."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle

from scorecard.allowance import allowance
from scorecard.hostile_inputs import Asked, inputs
from scorecard.line import Result, Scale, Tell
from scorecard.neighbour import Neighbour, Seen
from scorecard.serving import Client, Reply, Server, serving

SLOWEST = 1.0
"""Seconds for one answer."""
LATEST = 1.0
"""Seconds that the neighbour's runs may be late (p99)."""
SEED = 20261115
PAGES = (
    b"<a " * 349_000,
    b"<svg>" * 100_000 + b"</head>" * 100_000,
    b"<!--" * 250_000,
    b"&" * 1_000_000,
    b"<" * 1_000_000,
    b"<p x='" * 150_000,
)
SETTINGS = 'allowed_hosts = ["127.0.0.1"]\nmax_runs_per_hour = 0\ndrain = 0.1\n'


def measure(scale: Scale, tell: Tell) -> Result:
    count = scale.of(500, 22)
    with slow_pages() as port, serving(SETTINGS) as server:
        neighbour = Neighbour(server)
        neighbour.begin()
        slower = allowance(scale, server)
        slow, kinds = _attack(server, port, count, SLOWEST * slower, tell)
        neighbour.end()
        seen, alive = neighbour.seen(), server.alive
    seen = seen._replace(not_run=seen.broken) if scale is Scale.SMALL else seen
    failures = [*slow, *_disturbed(seen, LATEST * slower), *([] if alive else ["the process ended"])]
    measured = f"slower than {SLOWEST:g} s: {len(slow)}; the neighbour's p99 {seen.p99 * 1000:.0f} ms ({seen.ran} runs)"
    return Result({"inputs": count, "sorts": len(kinds)}, measured, tuple(failures))


def _attack(server: Server, port: int, count: int, slowest: float, tell: Tell) -> tuple[list[str], Counter[str]]:
    mallory = server.client("mallory")
    slow: list[str] = []
    kinds: Counter[str] = Counter()
    pages = cycle(range(len(PAGES)))
    for number, asked in enumerate(inputs(SEED, count)):
        if number % 20 == 0:
            _fetch_a_page(mallory, f"http://127.0.0.1:{port}/{next(pages)}")
        reply = _asked(mallory, asked)
        kinds[asked.about] += 1
        tell(f"{number} of {count} inputs")
        if reply.seconds > slowest or reply.status >= 500:
            slow.append(f"{asked.about}: {reply.status} after {reply.seconds:.2f} s: {_shown(asked)}")
    return slow, kinds


def _asked(client: Client, asked: Asked) -> Reply:
    headers = {"Content-Type": "application/json"} if asked.raw is not None else {}
    try:
        return client.ask(asked.method, asked.path, asked.body, headers, asked.raw)
    except OSError as error:
        client.close()
        return Reply(599, {}, repr(error).encode(), client.timeout)


def _fetch_a_page(client: Client, url: str) -> None:
    policy = {"timeout_seconds": 5, "max_attempts": 1}
    payload = {"task": "fetch", "args": [url]}
    trigger = {"type": "once", "run_at": "now"}
    client.made("/schedules", {"kind": "job", "name": "page", "trigger": trigger, "payload": payload, "policy": policy})


def _shown(asked: Asked) -> str:
    return f"{asked.method} {asked.path[:80]} {str(asked.body or asked.raw)[:200]}"


def _disturbed(seen: Seen, latest: float) -> list[str]:
    failures = [f"the neighbour: {told}" for told in seen.not_run]
    if seen.p99 > latest:
        failures.append(f"the neighbour's p99 is {seen.p99:.2f} s")
    return failures


@contextmanager
def slow_pages() -> Iterator[int]:
    """Serve the pages on a free port of the loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = PAGES[int(self.path[1:]) % len(PAGES)]
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
