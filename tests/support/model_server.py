"""A model played by a script, served on this machine in the words of Anthropic, OpenAI and Gemini.

Any agent that can be given a base URL talks to it as to the real thing, streaming or not, so that whole loops (model,
agent, tools, store) run without a network:

    script = [
        call("schedule", prompt="water the plants", at="2031-02-10 3:00 PM"),
        call("schedule_edit", lambda seen: {"id": seen.number("schedule"), "prompt": "water the roses"}),
        say("Done."),
    ]
    with ModelServer(script) as server:
        run_an_agent(env=server.environment)                  # base URLs and made-up keys of all three makers
        server.requests[-1].results                           # what the agent told the model that its tools answered

Steps
    call("list_jobs", status="pending")                       # calls a tool; its arguments, or ...
    call("job_status", lambda seen: {...})                    # ... a function of what was seen so far
    together(call(...), call(...))                            # several calls in one turn
    say("Done."), say(lambda seen: seen.text("list_jobs"))    # answers, which ends the agent's turn
    say("one two three", stall_after=1)                       # streams one word, and then nothing more
    fail(429, "slow down", {"Retry-After": "1"}, times=1)     # an HTTP error, so often; then the step that follows it
    silence()                                                 # takes the request and never answers

A tool is named as Duetime names it; clients put words before that (`mcp__duetime__schedule`), so the shortest offered
name that ends so is called. Calling a tool that was not offered is an error 400 that says so, and a test sees it.

Where in the script a request stands is read from the request itself: as many steps are done as it shows turns of this
model. So retries, requests on the side (titles, summaries: answered with `aside`) and several conversations at once do
no harm, and a conversation that goes on later goes on in the script. After the last step it says "Done.".
`ModelServer(function)` asks the function, with the request, for a step instead.

`Seen`, given to functions: `results` (each `tool`, `text`, `is_error`), `text(tool)` and `data(tool)` (JSON) of the
latest result of a tool, `number(tool)` (of its first `#12` or `"id": 12`), `find(pattern, tool)` (first group).

`requests` are what arrived: `api`, `path`, `headers`, `body`, `model`, `system`, `said` (texts of the user), `tools`
(name → description), `results`, `turns`, `stream`. `wait_for(count)` waits for that many. `conversation` leaves out
those on the side. Every answer reports `usage` tokens (input, output), 100 and 10 unless told.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.support.model_dialects import dialect_for, error_body
from tests.support.model_script import (
    Calls,
    Fails,
    Known,
    Says,
    Script,
    Seen,
    Silence,
    Step,
    call,
    fail,
    offered_as,
    say,
    silence,
    together,
)
from tests.support.model_wire import Answer, Call, Dialect, Event, Request, Turn

__all__ = ["ModelServer", "Request", "Script", "Seen", "Step", "call", "fail", "say", "silence", "together"]

PATIENCE = 60.0
"""Seconds after which even a model that never answers gives up."""


class ModelServer:
    def __init__(self, script: Script = (), *, usage: tuple[int, int] = (100, 10), aside: str = "ok") -> None:
        self._script = script
        self._usage = usage
        self._aside = aside
        self._said: set[str] = set()
        self._failed: dict[Fails, int] = {}
        self._arrived = threading.Condition()
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler_for(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="model", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that direct clients of all three providers here."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "made-up-anthropic-key",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "made-up-openai-key",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GEMINI_API_KEY": "made-up-gemini-key",
        }

    @property
    def conversation(self) -> list[Request]:
        """Return the requests that offered tools."""
        return [request for request in self.requests if request.tools]

    def wait_for(self, count: int, timeout: float = 30.0) -> list[Request]:
        with self._arrived:
            enough = self._arrived.wait_for(lambda: len(self.requests) >= count, timeout)
            assert enough, f"{len(self.requests)} of {count} requests arrived within {timeout:g} s"
            return list(self.requests)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)

    # -- for the handler ------------------------------------------------------------------------------------------

    def took(self, request: Request) -> Known:
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
            step = self._step(request)
            assert isinstance(step, Calls | Says | Fails | Silence), step
            return Says(self._aside) if isinstance(step, Calls) and not request.tools else step

    def _step(self, request: Request) -> Step:
        if callable(self._script):
            return self._script(request)
        steps = [step for step in self._script if not isinstance(step, Fails) or self._still_fails(step)]
        done = sum(1 for turn in request.turns if self._is_own(turn))
        before = [index for index, step in enumerate(steps) if not isinstance(step, Fails | Silence)]
        begin = 0 if done == 0 else before[done - 1] + 1 if done <= len(before) else len(steps)
        step = steps[begin] if begin < len(steps) else Says("Done.")
        if isinstance(step, Fails):
            self._failed[step] = self._failed.get(step, 0) + 1
        return step

    def _still_fails(self, step: Fails) -> bool:
        return step.times is None or self._failed.get(step, 0) < step.times

    def _is_own(self, turn: Turn) -> bool:
        """Return whether a turn is the model's own: some clients begin a conversation with a prefilled answer."""
        return bool(turn.tools) or turn.text.strip() in self._said

    def answer(self, step: Calls | Says, request: Request) -> Answer:
        seen = Seen(request)
        if isinstance(step, Says):
            text = step.text(seen) if callable(step.text) else step.text
            self._said.add(text.strip())
            return Answer(text, (), self._usage)
        calls = []
        for number, (tool, given) in enumerate(step.calls):
            offered = offered_as(tool, request)
            arguments = given(seen) if callable(given) else given
            calls.append(Call(f"call_{len(request.turns)}_{number}", offered, dict(arguments), request.spaces[offered]))
        return Answer("", tuple(calls), self._usage)


# -- HTTP ---------------------------------------------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect; anything else is an error of this server."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler_for(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"model": server})


class _Handler(BaseHTTPRequestHandler):
    model: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_GET(self) -> None:
        self._send(404, {"error": {"message": "nothing is here"}})

    def do_POST(self) -> None:
        body = json.loads(self._body() or b"{}")
        path = self.path.partition("?")[0]
        dialect = dialect_for(path)
        if dialect is None:
            self._send(404, {"error": {"message": f"nothing is at {path}"}})
        elif dialect.counts(path):
            self._send(200, dialect.count(100))
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._play(dialect, dialect.read(self.path, headers, body))

    def _body(self) -> bytes:
        """Read the body, which some clients send in chunks."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _play(self, dialect: Dialect, request: Request) -> None:
        match self.model.took(request):
            case Silence():
                self.model.closing.wait(PATIENCE)
                self.close_connection = True
            case Fails(status, message, headers):
                self._send(status, error_body(dialect.name, status, message), headers)
            case (Calls() | Says()) as step:
                try:
                    answer = self.model.answer(step, request)
                except (LookupError, ValueError) as error:
                    self._send(400, error_body(dialect.name, 400, f"the script cannot go on: {error}"))
                    return
                stall_after = step.stall_after if isinstance(step, Says) else None
                if request.stream:
                    self._stream(dialect.events(answer, request), stall_after)
                else:
                    self._send(200, dialect.whole(answer, request))

    def _send(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(body), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, events: Iterator[Event], stall_after: int | None) -> None:
        """Stream events; the connection ends with the stream, so that nobody waits for more."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        words = 0
        try:
            for event in events:
                if event.is_word:
                    if words == stall_after:
                        self.model.closing.wait(PATIENCE)
                        return
                    words += 1
                self.wfile.write(event.wire())
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            """The client has heard enough."""
