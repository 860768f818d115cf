"""The benchmark measures small workloads, judges figures against goals, and writes its table, JSON and plot."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from bench.environments import Peer, load_peers
from bench.lines import Figure, Goal, Line
from bench.processes import NotMeasured
from bench.report import merged, read_json, text_table, write_json, write_page
from bench.sides import Bench, Side, Sizes
from bench.stores import Stores

ROOT = Path(__file__).parents[2]
OURS = Figure("Duetime", (900.0, 1000.0, 1200.0), program="Duetime")
PEER = Figure("peer 1.0", (100.0, 250.0, 240.0), "workers=2", "fsync=on", "peer 1.0")
ABSENT = Figure("absent 1.0", reason="there is no redis-server on PATH", program="absent 1.0")


def test_small_workloads_are_measured_and_written(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--only", "cron,burst", "--stores", "sqlite", "--jobs", "200",
         "--json", str(output), "--docs", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "burst on sqlite: Duetime, round 1 of 1" in done.stderr
    lines = {line["workload"]: line for line in json.loads(output.read_text())["lines"]}
    assert lines["burst"]["ours"]["samples"][0] > 0
    assert lines["cron, next instant"]["ours"]["samples"][0] > 0
    assert "synchronous=full" in done.stdout
    assert "| burst | sqlite |" in (tmp_path / "performance.md").read_text()
    assert ET.parse(tmp_path / "performance.svg").getroot().tag.endswith("svg")  # noqa: S314 - written just now


def test_ratios_of_medians_are_judged() -> None:
    assert Line("burst", "sqlite", "jobs/s", OURS, PEER, Goal(4, 5)).verdict == "bar reached"
    assert Line("burst", "sqlite", "jobs/s", OURS, PEER, Goal(4.5, 8)).verdict == "BAR MISSED"
    assert Line("burst", "sqlite", "jobs/s", OURS, PEER, Goal(3, 4)).verdict == "aim reached"
    assert Line("idle", "sqlite", "%", OURS, None, Goal(2000, 500, higher=False)).verdict == "bar reached"
    assert Line("late", "sqlite", "ms", OURS, None, Goal(None, 0.3, higher=False)).verdict == "aim not reached"
    assert Line("burst", "sqlite", "jobs/s", OURS, ABSENT, Goal(1)).verdict == "not measured"


def test_a_ratio_from_an_uneven_disk_is_marked() -> None:
    slow, fast = (Figure("peer 1.0", (100.0,), fsync=milliseconds) for milliseconds in (4.0, 0.3))
    ours = Figure("Duetime", (900.0,), fsync=0.25)
    assert "an fsync took 0.25 ms and 4.00 ms" in text_table([Line("burst", "sqlite", "jobs/s", ours, slow)])
    assert "uneven disk" not in text_table([Line("burst", "sqlite", "jobs/s", ours, fast)])


def test_a_figure_from_a_busy_machine_is_marked() -> None:
    quiet, busy = (Figure("peer 1.0", (100.0,), busy=percent) for percent in (3.0, 75.0))
    assert "UNSURE, others used 75 %" in text_table([Line("burst", "sqlite", "jobs/s", OURS, busy, Goal(4))])
    assert "UNSURE" not in text_table([Line("burst", "sqlite", "jobs/s", OURS, quiet, Goal(4))])


def test_reports_name_settings_and_what_was_not_measured(tmp_path: Path) -> None:
    lines = [
        Line("burst", "sqlite", "jobs/s", OURS, PEER, Goal(4.5, 8)),
        Line("burst", "sqlite", "jobs/s", OURS, ABSENT),
        Line("lateness p50", "sqlite", "ms", OURS, None, Goal(None, 0.3, higher=False)),
    ]
    table = text_table(lines)
    assert "peer 1.0: 240 jobs/s" in table
    assert "4.17x" in table
    assert "absent 1.0: not measured: there is no redis-server on PATH" in table
    ended = Line("burst", "sqlite", "jobs/s", OURS, Figure("peer 1.0", (100.0,), reason="it hangs"))
    assert "peer 1.0: 100 jobs/s (ended after 1: it hangs)" in text_table([ended])
    write_page(tmp_path, lines, {"python": "3.11"})
    assert read_json(tmp_path / "performance.json") == (lines, {"python": "3.11"})
    page = (tmp_path / "performance.md").read_text()
    assert "- peer 1.0 on sqlite: workers=2; fsync=on (burst)" in page
    assert "(performance.svg)" in page
    plot = ET.parse(tmp_path / "performance.svg")  # noqa: S314 - written just now
    shown = [element.text for element in plot.iter() if element.tag.endswith("text")]
    assert "Duetime" in shown
    assert "peer 1.0" in shown
    assert "absent 1.0" not in shown
    write_json(tmp_path / "lines.json", lines, {})
    written = json.loads((tmp_path / "lines.json").read_text())["lines"]
    assert [line["verdict"] for line in written] == ["BAR MISSED", "", "aim not reached"]
    assert read_json(tmp_path / "lines.json") == (lines, {})


def test_a_later_measurement_replaces_an_earlier_one_of_the_same_comparison() -> None:
    huey = Line("burst", "sqlite", "jobs/s", Figure("Duetime", (1.0,)), Figure("huey 1.0", (1.0,)))
    apscheduler = replace(huey, beside=Figure("apscheduler 3.11", (1.0,)))
    again = replace(huey, ours=Figure("Duetime", (2.0,)), beside=Figure("huey 1.1", (1.0,)))
    postgres = replace(huey, store="postgres")
    assert merged([[huey, apscheduler], [postgres, again]]) == [again, apscheduler, postgres]


def test_sides_alternate_and_one_that_fails_is_left_out_with_its_reason() -> None:
    order: list[str] = []

    def measure(name: str) -> dict[str, float]:
        order.append(name)
        if name == "broken":
            raise NotMeasured("it cannot be installed")
        return {"rate": float(len(order))}

    sides = [
        Side("a", lambda: measure("a")),
        Side("broken", lambda: measure("broken")),
        Side("b", lambda: measure("b")),
    ]
    with Stores(0) as stores:
        Bench(stores, Sizes(), 3, True, 0).measure("burst", sides)
    assert order == ["a", "broken", "b", "b", "a", "a", "b"]
    assert sides[1].figure().reason == "it cannot be installed"
    assert sides[1].figure().median is None


def test_the_best_settings_are_tried_twice_and_a_search_out_of_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def measure(_peer: Peer, _measurement: str, **request: int) -> dict[str, float]:
        tried.append(request["threads"])
        if request["threads"] == 4:
            raise NotMeasured("four are too many")
        return {"rate": 1000.0 if request["threads"] == 2 and tried.count(2) == 2 else 10.0 * request["threads"]}

    peer = Peer("made", ("made==1",), "", {"burst": [{"threads": number} for number in (1, 2, 3, 4)]})
    monkeypatch.setattr("bench.sides.load_peers", lambda: {"made": peer})
    monkeypatch.setattr("bench.sides.python_of", lambda peer: None)
    monkeypatch.setattr(Peer, "measure", measure)
    with Stores(0) as stores:
        (side,) = Bench(stores, Sizes(), 1, True, 60).peers(("made",), "burst", None, {}, jobs=5)
        assert side.settings == "threads=2 (fastest of 4 of 4 settings)"
        assert tried == [1, 2, 3, 4, 1, 2, 3]
        (side,) = Bench(stores, Sizes(), 1, True, -1).peers(("made",), "burst", None, {}, jobs=5)
        assert side.settings == "threads=1 (fastest of 1 of 4 settings)"


def test_every_peer_is_pinned_and_has_settings_to_try() -> None:
    for peer in load_peers().values():
        assert all("==" in package for package in peer.packages), peer
        assert all(peer.candidates.values()), peer
        assert (ROOT / "bench" / "peers" / f"{peer.name}.py").exists()


def test_a_peer_without_its_server_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotMeasured, match="no redis-server on PATH"):
        Peer("celery", ("celery==5.7.0",), "redis-server", {}).measure("burst", jobs=1)
