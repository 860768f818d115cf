"""The trace of the work in this context, for what leaves this process. `duetime.tracing` makes the spans, if any."""

import os
import sys
from collections.abc import Callable, Container

headers: Callable[[], dict[str, str]] = dict
"""Returns the headers that name the span in this context; none without tracing. `duetime.tracing` sets it."""


def may_trace(modules: Container[str] = sys.modules) -> bool:
    """Return whether the environment says where spans go, or the program around us may have a provider of its own."""
    ends = map(os.environ.get, ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
    named = any(ends) and os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    return named or "opentelemetry.sdk.trace" in modules
