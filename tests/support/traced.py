"""A program with a provider of spans that uses Duetime: plays scenes and prints what came of each, as JSON.

It is a process of its own, because a provider stays for as long as the process, and everything that runs is traced.
"""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from duetime import Duetime, Settings
from duetime.settings import AgentSettings, ChannelSettings
from tests.support.programs import program
from tests.support.raw import META
from tests.support.receiver import Receiver
from tests.support.traced_tasks import REGISTRY
from tests.support.web import MODERN, Site, site

SECRET, OUTSIDE = sys.argv[2:4]
"""A text that no span may have, and a span of another program, as the header `traceparent` has it."""
PATIENCE = 30.0
FAR = datetime(2100, 1, 1, tzinfo=UTC)


class Play:
    def __init__(self, duetime: Duetime, site: Site, receiver: Receiver) -> None:
        self._duetime, self._site, self._receiver = duetime, site, receiver
        self._exporter, self._tracer = InMemorySpanExporter(), trace.get_tracer("mine")
        provider = trace.get_tracer_provider()
        assert isinstance(provider, TracerProvider)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def scene(self, name: str) -> dict[str, Any]:
        """Play one scene within a request of this program, and return its spans and what was seen."""
        self._exporter.clear()
        with self._tracer.start_as_current_span("request"):
            seen = getattr(self, name)()
        spans = [json.loads(span.to_json()) for span in self._exporter.get_finished_spans()]
        return {"seen": seen, "spans": sorted(spans, key=lambda span: str(span["start_time"]))}

    def _end(self, schedule: Any) -> Any:
        """Return the run of a schedule that has one, when it has ended."""
        schedule.wait(PATIENCE)
        return schedule.history()[0]

    def one_off(self) -> Any:
        return self._end(self._duetime.schedule("greet", args=[SECRET], delay=0.01, name=SECRET)).result

    def coroutine(self) -> Any:
        return self._end(self._duetime.schedule("greet_later", args=[SECRET], delay=0.01)).result

    def keyed(self) -> Any:
        return self._end(self._duetime.schedule("greet", args=[SECRET], delay=0.01, key="mine")).result

    def recurring(self) -> Any:
        return self._duetime.schedule("greet", args=[SECRET], every=0.01, max_runs=2).wait(PATIENCE).status

    def retry(self) -> Any:
        job = self._duetime.schedule("stumble", args=[SECRET], every=0.01, max_runs=1, max_attempts=2, backoff=0.01)
        return job.wait(PATIENCE).status

    def failure(self) -> Any:
        return self._end(self._duetime.schedule("fall", args=[SECRET], delay=0.01, max_attempts=1, alert="off")).error

    def timeout(self) -> Any:
        return self._end(self._duetime.schedule("dawdle", delay=0.01, timeout=0.1, max_attempts=1, alert="off")).error

    def run_now(self) -> Any:
        job = self._duetime.schedule("greet", args=[SECRET], at=FAR, key="by hand")
        return job.run_now(wait=PATIENCE).result

    def event(self) -> Any:
        self._duetime.schedule("greet", args=[SECRET], when="on agent.reported", name="listener")
        self._duetime.schedule("report", args=[SECRET], delay=0.01).wait(PATIENCE)
        until = threading.Event()
        while not (runs := self._duetime.history("listener")):
            until.wait(0.02)  # for the worker, which turns events into runs
        return self._duetime.wait_for_run(runs[0].run_id, PATIENCE).result

    def isolated(self) -> Any:
        return self._end(self._duetime.schedule("look_around", delay=0.01)).result

    def command(self) -> Any:
        return self._end(self._duetime.prompt(f"Say {SECRET}", agent="scribe", delay=0.01)).result

    def request(self) -> Any:
        self._duetime.request(f"{self._receiver.url}/here?{SECRET}", body=SECRET, delay=0.01).wait(PATIENCE)
        return self._receiver.requests[-1].headers.get("traceparent")

    def own_header(self) -> Any:
        headers = {"Traceparent": OUTSIDE}
        self._duetime.request(f"{self._receiver.url}/own", headers=headers, delay=0.01).wait(PATIENCE)
        return self._receiver.requests[-1].headers.get("traceparent")

    def notification(self) -> Any:
        self._duetime.notify(SECRET, "phone", delay=0.01).wait(PATIENCE)
        return self._receiver.requests[-1].headers.get("traceparent")

    def over_http(self) -> Any:
        job = self._duetime.schedule("greet", args=[SECRET], at=FAR, key="over http")
        reply = self._site.ask("POST", f"/api/v1/schedules/{job.id}/run?wait_seconds=20", {"traceparent": OUTSIDE})
        return reply.json["status"]

    def over_mcp(self) -> Any:
        job = self._duetime.schedule("greet", args=[SECRET], at=FAR, key="over mcp")
        meta = {**META, "traceparent": OUTSIDE}
        call = {"name": "run_now", "arguments": {"schedule_id": job.id, "wait_seconds": 20}, "_meta": meta}
        headers = {**MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "run_now"}
        reply = self._site.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, headers)
        return reply.message["result"]["structuredContent"]["run"]["status"]


def main(folder: Path, *scenes: str) -> None:
    trace.set_tracer_provider(TracerProvider())
    command = tuple(program(folder, "import os; print(os.environ.get('TRACEPARENT'))"))
    with Receiver() as receiver, site(folder, auth=False) as there:
        settings = Settings(
            db=there.room.settings.db,
            timezone="UTC",
            smallest_interval=0.01,
            allowed_hosts=("127.0.0.1",),
            agents={"scribe": AgentSettings(command=command)},
            channels={"phone": ChannelSettings(url=f"{receiver.url}/phone")},
        )
        with Duetime(settings=settings, registry=REGISTRY) as duetime:
            play = Play(duetime, there, receiver)
            print(json.dumps({name: play.scene(name) for name in scenes}))  # noqa: T201 - that is its answer


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[4:])
