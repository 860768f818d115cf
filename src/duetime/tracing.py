"""Traces: each attempt of a run is a span. This is imported only if OpenTelemetry may have a provider.

Spans have ids, the kind, the number of the attempt and the status, and nothing that users, tasks or agents wrote.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import copy
from functools import partial
from hashlib import sha256
from typing import Any

from opentelemetry import context, propagate, trace

from duetime.engine import trace_context
from duetime.engine.errors import TRANSIENT
from duetime.engine.kind import Kind, StopReason, Work
from duetime.engine.model import Cause
from duetime.engine.outcome import Failed, Outcome, Retry
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import Store
from duetime.engine.triggers.base import OnceTrigger
from duetime.engine.triggers.build import readable

_SPAN = r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
_IN_KEY = re.compile(rf"~.+-({_SPAN})-\d+")


def _headers() -> dict[str, str]:
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


def continue_requests(scheduler: Scheduler) -> None:
    """Keep the trace of a request with the runs that it starts, and in the key of what it creates without one. A
    command is in the trace that its environment names."""

    def request_trace() -> str:
        named = _headers().get("traceparent") or os.environ.get("TRACEPARENT", "")
        return named if re.fullmatch(_SPAN, named) else ""

    prefix_of, scheduler.request_trace = scheduler.drafter.key_prefix, request_trace
    scheduler.drafter.key_prefix = lambda now: f"{prefix_of(now)}{request_trace()}-"


def with_traces(app: Any) -> Any:
    """Return a web application whose requests are in the trace that their header names."""

    async def handle(scope: Any, receive: Any, send: Any) -> None:
        named = dict(scope.get("headers", ())).get(b"traceparent", b"")
        context.attach(propagate.extract({"traceparent": named.decode("latin-1")}))
        await app(scope, receive, send)

    return handle


def trace_runs(kinds: Iterable[Kind], store: Store) -> None:
    """Make a span of each attempt, if this program has a provider, or else with the one of the environment."""
    is_free = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    if is_free and trace_context.may_trace(()):
        try:
            trace.set_tracer_provider(_provider())
        except ImportError as error:
            logging.getLogger("duetime.tracing").warning("nothing is traced: %s; install duetime[otel]", error)
    tracer: Any = trace.get_tracer("duetime")
    if hasattr(tracer, "id_generator"):  # otherwise, it makes no spans
        trace_context.headers, traces = _headers, _RunTraces(tracer, store)
        for kind in (each for each in kinds if not isinstance(each.execute, partial)):  # a worker may start again
            kind.execute = partial(traces.execute, kind.execute)  # type: ignore[method-assign]


def _provider() -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider, export

    resource = Resource.create({"service.name": "duetime"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(export.BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class _RunTraces:
    """Makes spans, and chooses the ids of traces, so that all attempts of a run are in one, wherever they are made."""

    def __init__(self, tracer: Any, store: Store) -> None:
        self._tracer, self._store, self._chosen = tracer, store, threading.local()
        tracer.id_generator = copy(tracer.id_generator)
        tracer.id_generator.generate_trace_id = lambda: self._chosen.id

    def execute(self, execute: Callable[[Work], Outcome], work: Work) -> Outcome:
        span, status = self._begin(work), "failed"
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                outcome = execute(work)
            status = "failed" if isinstance(outcome, Failed | Retry) else type(outcome).__name__.lower()
            return outcome
        finally:
            if work.stop.reason and (status != "completed" or work.stop.reason == StopReason.TIMEOUT):
                status = str(work.stop.reason)
            span.set_attribute("duetime.status", status)
            span.set_status(trace.StatusCode.ERROR if status in ("failed", "timeout") else trace.StatusCode.UNSET)
            span.end()

    def _begin(self, work: Work) -> Any:
        """Begin a span in the trace that led to the run. That of a schedule that recurs only refers to the request
        which created the schedule."""
        definition, run, event = work.claim.definition, work.claim.run, work.event
        in_key, is_manual = _IN_KEY.fullmatch((event or definition).key or ""), run.cause == Cause.MANUAL
        named = in_key and in_key[1]
        with suppress(*TRANSIENT):  # without the store, the run has a trace of its own
            named = self._store.trace_of(run.id) if is_manual else named
        origin, links = propagate.extract({"traceparent": named or ""}, context.Context()), []
        recurs = not (is_manual or event or isinstance(readable(definition.trigger), OnceTrigger))
        if named and recurs:
            origin, links = context.Context(), [trace.Link(trace.get_current_span(origin).get_span_context())]
        facts = {"kind": definition.kind, "schedule": definition.public_id, "run": run.id, "attempt": run.attempt}
        facts = {f"duetime.{name}": value for name, value in facts.items()}
        name = f"{definition.key} {definition.created} {run.id}"
        self._chosen.id = int.from_bytes(sha256(name.encode()).digest()[:16])
        return self._tracer.start_span(f"{definition.kind} run", origin, attributes=facts, links=links)
