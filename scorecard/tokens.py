"""Tokens, sessions and links on two nodes that share a store and a secret, and nothing else: what is forged, revoked,
used or signed out is refused by both."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from scorecard.forgeries import forgeries
from scorecard.line import Result, Scale, Tell
from scorecard.serving import Client, Server, started

KNOWN_WITHIN = 2.0
"""Seconds until the other node has to know what was revoked."""
FORM = "application/x-www-form-urlencoded"


def measure(scale: Scale, tell: Tell) -> Result:
    secret = secrets.token_urlsafe(64)
    with tempfile.TemporaryDirectory(prefix="duetime-scorecard-") as name:
        folder = Path(name)
        settings, env = f"db = {json.dumps(str(folder / 'shared.db'))}\n", {"DUETIME_SECRET": secret}
        with started(folder / "one", settings, env=env) as one, started(folder / "two", settings, env=env) as two:
            nodes = (one, two)
            forged = list(forgeries(secret))
            chosen = forged if scale is not Scale.SMALL else forged[::4]
            failures = [*_accepted(nodes, chosen, tell), *_ended(nodes, scale.of(20, 1), tell)]
            failures += [f"node {number} ended" for number, node in enumerate(nodes, 1) if not node.alive]
    tried = len(chosen) + 4 * scale.of(20, 1)
    return Result({"tokens, sessions and links": tried, "nodes": 2}, f"accepted: {len(failures)}", tuple(failures))


def _accepted(nodes: tuple[Server, ...], forged: list[tuple[str, str]], tell: Tell) -> Iterator[str]:
    for number, (about, token) in enumerate(forged):
        tell(f"{number} of {len(forged)} forgeries")
        for node in nodes:
            for path in ("/api/v1/whoami", "/v2/schedules", "/mcp", "/metrics"):
                yield from _refused(node, path, token, about)


def _refused(node: Server, path: str, token: str, about: str) -> Iterator[str]:
    sendable = token.encode("ascii", "ignore").decode()
    client = Client(node.port, {"Authorization": f"Bearer {sendable}"})
    reply = client.ask("POST" if path == "/mcp" else "GET", path, {} if path == "/mcp" else None)
    client.close()
    if reply.status not in (400, 401):
        yield f"{about}: {path} answered {reply.status} {reply.text[:100]}"


def _ended(nodes: tuple[Server, ...], count: int, tell: Tell) -> Iterator[str]:
    """What is ended on one node is refused on both, whichever it was."""
    for number in range(count):
        tell(f"{number} of {count} revocations")
        here, there = nodes if number % 2 else nodes[::-1]
        yield from _revoked_token(here, there)
        yield from _used_link(here, there)
        yield from _signed_out(here, there)
        yield from _session_of_revoked(here, there)


def _revoked_token(here: Server, there: Server) -> Iterator[str]:
    token, id = _issued(here)
    for node in (here, there):
        if _whoami(node, token) != 200:
            yield "a good token was refused"
    _duetime(here, "token", "revoke", id)
    yield from _gone("a revoked token", lambda node: _whoami(node, token), here, there)


def _used_link(here: Server, there: Server) -> Iterator[str]:
    link = json.loads(_duetime(here, "token", "link", "--json"))
    given = parse_qs(urlsplit(next(value for value in link.values() if "token=" in str(value))).query)["token"][0]
    first = here.stranger().ask("GET", f"/login?token={given}")
    if first.status != 303:
        yield f"a good link answered {first.status}"
    for node in (here, there):
        again = node.stranger().ask("GET", f"/login?token={given}")
        if again.status != 401:
            yield f"a used link answered {again.status}"


def _signed_out(here: Server, there: Server) -> Iterator[str]:
    token, _ = _issued(here)
    cookie = _cookie(here, token)
    page = here.stranger().ask("GET", "/", None, {"Cookie": cookie})
    proof = page.text.split('name="csrf" content="')[1].split('"')[0]
    origin = {"Cookie": cookie, "Content-Type": FORM, "Origin": f"http://127.0.0.1:{here.port}"}
    here.stranger().ask("POST", "/sign-out", None, origin, f"csrf={proof}".encode())
    yield from _gone("a session that was signed out", lambda node: _page(node, cookie, here), here, there)


def _session_of_revoked(here: Server, there: Server) -> Iterator[str]:
    token, id = _issued(here)
    cookie = _cookie(here, token)
    _duetime(here, "token", "revoke", id)
    yield from _gone("the session of a revoked token", lambda node: _page(node, cookie, here), here, there)


def _gone(about: str, ask: Callable[[Server], int], here: Server, there: Server) -> Iterator[str]:
    deadline = time.monotonic() + KNOWN_WITHIN
    for node in (here, there):
        status = ask(node)
        while status != 401 and time.monotonic() < deadline:
            time.sleep(0.05)
            status = ask(node)
        if status != 401:
            yield f"{about} answered {status} after {KNOWN_WITHIN:g} s"


def _whoami(node: Server, token: str) -> int:
    return Client(node.port, {"Authorization": f"Bearer {token}"}).ask("GET", "/api/v1/whoami").status


def _page(node: Server, cookie: str, signed_in_at: Server) -> int:
    """The cookie is named after its port: at the other node it is sent under that node's name."""
    own = cookie.replace(str(signed_in_at.port), str(node.port), 1)
    return node.stranger().ask("GET", "/schedules", None, {"Cookie": own}).status


def _cookie(node: Server, token: str) -> str:
    return node.browser(Client(node.port, {"Authorization": f"Bearer {token}"})).headers["Cookie"]


def _issued(node: Server) -> tuple[str, str]:
    made = json.loads(_duetime(node, "token", "issue", "--email", "ada@example.org", "--json"))
    return str(made["token"]), str(made["id"])


def _duetime(node: Server, *arguments: str) -> str:
    done = node.duetime(*arguments)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr[-500:]}")
    return done.stdout
