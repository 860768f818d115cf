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

from scorecard.allowance import allowance
from scorecard.commands import Commands, commands_of
from scorecard.forgeries import forgeries
from scorecard.line import Result, Scale, Tell
from scorecard.serving import Server, started

KNOWN_WITHIN = 2.0
"""Seconds until the other node has to know what was revoked."""
FORM = "application/x-www-form-urlencoded"


def measure(scale: Scale, tell: Tell) -> Result:
    secret = secrets.token_urlsafe(64)
    with tempfile.TemporaryDirectory(prefix="duetime-scorecard-") as name:
        folder = Path(name)
        settings, env = f"db = {json.dumps(str(folder / 'shared.db'))}\ndrain = 0.1\n", {"DUETIME_SECRET": secret}
        with started(folder / "one", settings, env=env) as one, started(folder / "two", settings, env=env) as two:
            nodes = (one, two)
            forged = list(forgeries(secret))
            chosen = forged if scale is not Scale.SMALL else forged[::6]
            with commands_of(one) as duetime:
                failures = list(_accepted(nodes, chosen, tell))
                within = KNOWN_WITHIN * allowance(scale, one)
                failures += _Endings(nodes, duetime, within).tried(scale.of(20, 1), tell)
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
    client = node.connected({"Authorization": f"Bearer {sendable}"})
    reply = client.ask("POST" if path == "/mcp" else "GET", path, {} if path == "/mcp" else None)
    client.close()
    if reply.status not in (400, 401):
        yield f"{about}: {path} answered {reply.status} {reply.text[:100]}"


class _Endings:
    """Checks that what is ended on either node is refused on both."""

    def __init__(self, nodes: tuple[Server, ...], duetime: Commands, within: float) -> None:
        self._nodes, self._commands, self._within = nodes, duetime, within

    def tried(self, count: int, tell: Tell) -> Iterator[str]:
        for number in range(count):
            tell(f"{number} of {count} revocations")
            here = self._nodes[number % 2]
            yield from self._revoked_token()
            yield from self._used_link(here)
            yield from self._signed_out(here)
            yield from self._session_of_revoked(here)

    def _revoked_token(self) -> Iterator[str]:
        token, id = self._issued()
        for node in self._nodes:
            if _whoami(node, token) != 200:
                yield "a good token was refused"
        self._duetime("token", "revoke", id)
        yield from self._gone("a revoked token", lambda node: _whoami(node, token))

    def _used_link(self, here: Server) -> Iterator[str]:
        link = json.loads(self._duetime("token", "link", "--json"))
        given = parse_qs(urlsplit(next(value for value in link.values() if "token=" in str(value))).query)["token"][0]
        first = here.stranger().ask("GET", f"/login?token={given}")
        if first.status != 303:
            yield f"a good link answered {first.status}"
        for node in self._nodes:
            again = node.stranger().ask("GET", f"/login?token={given}")
            if again.status != 401:
                yield f"a used link answered {again.status}"

    def _signed_out(self, here: Server) -> Iterator[str]:
        token, _ = self._issued()
        cookie = _cookie(here, token)
        page = here.stranger().ask("GET", "/", None, {"Cookie": cookie})
        proof = page.text.split('name="csrf" content="')[1].split('"')[0]
        origin = {"Cookie": cookie, "Content-Type": FORM, "Origin": f"http://127.0.0.1:{here.port}"}
        here.stranger().ask("POST", "/sign-out", None, origin, f"csrf={proof}".encode())
        yield from self._gone("a session that was signed out", lambda node: _page(node, cookie, here))

    def _session_of_revoked(self, here: Server) -> Iterator[str]:
        token, id = self._issued()
        cookie = _cookie(here, token)
        self._duetime("token", "revoke", id)
        yield from self._gone("the session of a revoked token", lambda node: _page(node, cookie, here))

    def _gone(self, about: str, ask: Callable[[Server], int]) -> Iterator[str]:
        deadline = time.monotonic() + self._within
        for node in self._nodes:
            status = ask(node)
            while status != 401 and time.monotonic() < deadline:
                time.sleep(0.05)
                status = ask(node)
            if status != 401:
                yield f"{about} answered {status} after {self._within:g} s"

    def _issued(self) -> tuple[str, str]:
        made = json.loads(self._duetime("token", "issue", "--email", "ada@example.org", "--json"))
        return str(made["token"]), str(made["id"])

    def _duetime(self, *arguments: str) -> str:
        done = self._commands(*arguments)
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr[-500:]}")
        return done.stdout


def _whoami(node: Server, token: str) -> int:
    return node.connected({"Authorization": f"Bearer {token}"}).ask("GET", "/api/v1/whoami").status


def _page(node: Server, cookie: str, signed_in_at: Server) -> int:
    """Request a page. The cookie is named after its port, so the other node gets it under that node's name."""
    own = cookie.replace(str(signed_in_at.port), str(node.port), 1)
    return node.stranger().ask("GET", "/schedules", None, {"Cookie": own}).status


def _cookie(node: Server, token: str) -> str:
    return node.browser(node.connected({"Authorization": f"Bearer {token}"})).headers["Cookie"]
