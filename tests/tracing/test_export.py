"""Spans leave the process only if the environment says where to; otherwise OpenTelemetry is not even loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import ROOT, environment
from tests.support.receiver import Receiver

pytestmark = pytest.mark.process

WORK = """
import sys
from duetime import Duetime
with Duetime("my.db") as duetime:
    print(duetime.schedule("echo", args=["hello"], delay=0.01).wait(30).status)
print(*[name for name in sys.modules if name.startswith("opentelemetry")])
"""


def work(folder: Path, **variables: str) -> list[str]:
    """Return what a program prints that has one job run: its status, and the loaded modules of OpenTelemetry."""
    bare = {name: value for name, value in environment().items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", WORK], cwd=folder, env=bare | variables, capture_output=True, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    return [*done.stdout.splitlines(), done.stderr]


OFF = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        pytest.param({"OTEL_SERVICE_NAME": "mine"}, marks=pytest.mark.later),
        pytest.param(OFF, marks=pytest.mark.later),
    ],
    ids=["nothing", "no address", "off"],
)
def test_without_an_address_nothing_of_it_is_loaded(tmp_path: Path, variables: dict[str, str]) -> None:
    assert work(tmp_path, **variables)[:2] == ["completed", ""]


def test_spans_arrive_where_the_environment_says(tmp_path: Path) -> None:
    with Receiver() as receiver:
        status, loaded, _ = work(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, OTEL_RESOURCE_ATTRIBUTES="a=b")
        (request,) = [each for each in receiver.requests if each.path == "/v1/traces"]
    assert status == "completed" and "opentelemetry.sdk.trace" in loaded
    assert request.headers["content-type"] == "application/x-protobuf"
    assert all(word in request.body for word in (b"job run", b"duetime.run", b"completed", b"service.name", b"duetime"))
    assert b"hello" not in request.body and b"echo" not in request.body


@pytest.mark.later
def test_a_collector_that_does_not_answer_changes_no_run(tmp_path: Path) -> None:
    with Receiver() as receiver:
        address = receiver.url
    status, *_ = work(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=address, OTEL_EXPORTER_OTLP_TIMEOUT="1")
    assert status == "completed"


def test_what_is_missing_is_said_and_the_work_is_done(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['opentelemetry.sdk'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(hidden, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    status, _, said = work(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", PYTHONPATH=path)
    assert status == "completed" and "nothing is traced" in said and "duetime[otel]" in said


@pytest.mark.later
def test_a_command_is_in_the_trace_that_its_environment_names(tmp_path: Path) -> None:
    """A program of an agent that calls `duetime run` continues its own run's trace."""
    span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with Receiver() as receiver:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "TRACEPARENT": span}
        env = environment() | variables | {"DUETIME_DB": "my.db"}
        for line in ("job add one --task echo --arg hi --at 2100-01-01", "run one"):
            command = [sys.executable, "-m", "duetime", *line.split()]
            subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True, timeout=60)
        assert not receiver.requests, "a command itself makes no spans"
        work(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
        body = b"".join(each.body for each in receiver.requests)
    assert bytes.fromhex(span.split("-")[1]) in body and bytes.fromhex(span.split("-")[2]) in body
