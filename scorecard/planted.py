"""Planted bugs: short patches of the sources. Each breaks one promise, and the history checker has to see it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from scorecard.line import Result, Scale, Tell

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "duetime"
TOGETHER = 3
"""Experiments at a time: they mostly wait."""
TOO_LONG = 180.0


class Edit(NamedTuple):
    """`old` stands exactly once in `file`, and is replaced by `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Patch:
    name: str
    edits: tuple[Edit, ...]


def _patch(name: str, *edits: tuple[str, str, str]) -> Patch:
    return Patch(name, tuple(Edit(*edit) for edit in edits))


CLAIM, RECORD = "engine/policy/claim.py", "engine/policy/record.py"
CHANGES, FINISH = "engine/policy/changes.py", "engine/policy/finish.py"
PAUSES, RULES = "engine/policy/pauses.py", "engine/rule_edits.py"
WORKER, HELD, BASE = "engine/worker/worker.py", "engine/worker/held_runs.py", "stores/base.py"
SQLITE, SQLITE_QUERIES = "stores/sqlite/store.py", "stores/sql/sqlite/queries.sql"

PATCHES = (
    _patch(
        "a claimed entry stays in the queue",
        (CLAIM, "        plan.writes.due_gone.append(entry.due)\n        if entry", "        if entry"),
    ),
    _patch(
        "a claimed run is started twice",
        (WORKER, "self.executor.put(ready)", "self.executor.put([*ready, *ready])"),
    ),
    _patch(
        "a retry is not put back into the queue",
        (RECORD, "writes.due_new.append(run_entry(held.definition, policy, pending, at))", "pass"),
    ),
    _patch(
        "stale fences are taken",
        (RECORD, "row is None or row.run.fence != item.fence or row.run.worker != worker", "row is None"),
        (HELD, "if pair[0].worker == worker]", "if pair]"),
    ),
    _patch("runs start at their claim", (WORKER, "if item.claim.at <= now]", "if item.claim.at]")),
    _patch(
        "a cancel is silent about what was due",
        (CHANGES, 'progress = account(writes, change, f"{before}{reason}")', "pass"),
    ),
    _patch(
        "resuming is silent about what was due",
        (PAUSES, "_pass_over(writes, ended_at, reason)", "_pass_over(Writes(), ended_at, reason)"),
    ),
    _patch(
        "work that runs at most once is started again",
        (RECORD, "if policy_for_ending(row.definition.policy).at_most_once:", "if False:"),
    ),
    _patch(
        "a dead worker's runs are forgotten", (RECORD, "for row in held:\n        if", "for row in ():\n        if")
    ),
    _patch(
        "workers are declared dead too soon",
        (
            "engine/worker/lease.py",
            "if self._seen[row.id].unchanged * SECOND >= row.lease]",
            "if self._seen[row.id].unchanged * SECOND * 99 >= row.lease]",
        ),
    ),
    _patch(
        "runs of one schedule overlap",
        (CLAIM, "if progress.queued == 0 and progress.active == replaceable(policy, progress):", "if True:"),
    ),
    _patch(
        "a skip leaves no row",
        (CLAIM, "RunStatus.SKIPPED, reason, plan.now)\n    plan.writes.new_runs.append(run)", "'', '', plan.now)"),
    ),
    _patch(
        "a range counts one too many",
        ("engine/policy/catch_up.py", "count = 1 + trigger.count(", "count = 2 + trigger.count("),
    ),
    _patch("one attempt too many", (RECORD, "failures >= policy.max_attempts", "failures > policy.max_attempts")),
    _patch("the line is never released", (FINISH, "elif progress.queued:", "elif False:")),
    _patch(
        "every other occurrence is passed over",
        (
            "engine/policy/catch_up.py",
            "following = next_instant(trigger_text, due)",
            "following = next_instant(trigger_text, next_instant(trigger_text, due) or due)",
        ),
    ),
    _patch("a retry does not wait", (RECORD, "Instant(now + backoff(policy, run.id, failures, delay))", "now")),
    _patch(
        "a pause is acknowledged and does nothing",
        (
            PAUSES,
            "    if not resting and progress.state != ScheduleState.ACTIVE:",
            "    if True:\n        return Writes(), change.schedule\n    if not resting:",
        ),
    ),
    _patch(
        "a create is acknowledged and not written",
        (BASE, "tx.insert_schedules(rows)\n                tx.announce()", "tx.announce()"),
        (SQLITE, 'self._writer.execute(insert_statement("create_schedule", len(rows)), values)', "pass"),
    ),
    _patch(
        "a success is recorded as a failure",
        (RECORD, "run.due, _COMPLETED,", "run.due, RunStatus.FAILED,"),
        (SQLITE_QUERIES, "UPDATE runs SET status = 'completed'", "UPDATE runs SET status = 'failed'"),
    ),
    _patch(
        "a new rule waits for the start of a rule that it replaces",
        (RULES, "in_force = _rule_at(old, begin)", "in_force = getattr(old, 'after', old)"),
    ),
    _patch(
        "a run whose worker was slow is recorded as failed",
        ("kinds/jobs/runners.py", "if stopped is None and not process.expired:", "if stopped is None:"),
    ),
)


def measure(scale: Scale, tell: Tell) -> Result:
    """Run the exam on each patched copy of the sources, and once on the sources as they are."""
    failures = [f"{patch.name}: {problem}" for patch in PATCHES for problem in problems(patch)]
    if failures or scale is Scale.SMALL:
        return Result({"patches": len(PATCHES)}, "each patch applies", tuple(failures))
    done = 0
    caught: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(TOGETHER) as pool:
        sound = pool.submit(examine, None, Path(folder) / "sound")
        places = [Path(folder) / str(number) for number in range(len(PATCHES))]
        for patch, findings in zip(PATCHES, pool.map(examine, PATCHES, places), strict=True):
            caught[patch.name] = findings
            done += 1
            tell(f"{done} of {len(PATCHES)} planted bugs")
        wolf = sound.result()
    failures = [f"not caught: {name}" for name, findings in caught.items() if not findings]
    failures += [f"found in sources without a planted bug: {finding}" for finding in wolf]
    measured = f"{sum(map(bool, caught.values()))} of {len(PATCHES)} caught; {len(wolf)} findings without a bug"
    return Result({"planted bugs": len(PATCHES)}, measured, tuple(failures))


def problems(patch: Patch) -> list[str]:
    """Return why a patch no longer applies: the text that it replaces has to stand exactly once in its file."""
    found = []
    for edit in patch.edits:
        times = (SOURCES / edit.file).read_text(encoding="utf-8").count(edit.old)
        if times != 1:
            found.append(f"{edit.old!r} stands {times} times in {edit.file}; adapt the patch in {Path(__file__).name}")
    return found


def examine(patch: Patch | None, folder: Path) -> list[str]:
    """Return the findings of the exam on a copy of the sources with this patch."""
    copy = folder / "src" / "duetime"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for edit in () if patch is None else patch.edits:
        text = (copy / edit.file).read_text(encoding="utf-8")
        (copy / edit.file).write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    scene = folder / "scene"
    scene.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder / "src"), str(ROOT)))}
    command = [sys.executable, "-m", "scorecard.exam", str(scene)]
    try:
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=TOO_LONG, check=False
        )
    except subprocess.TimeoutExpired:
        return ["stuck: the experiment did not come to an end"]
    if done.returncode:
        return [f"the experiment could not go on: {done.stderr.strip().splitlines()[-1]}"]
    findings: list[str] = json.loads(done.stdout)
    return findings
