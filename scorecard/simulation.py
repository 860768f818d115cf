"""Deterministic simulation: each seed is a world of its own, with faults; what it did is checked, and can be replayed.

`python -m scorecard.simulation SEED` replays one seed and shows its sequence.
"""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from duetime.engine.model import Cause, Run, RunStatus
from duetime.engine.policy.catch_up import LEAD
from duetime.engine.store import RunQuery
from scorecard.line import Result, Scale, Tell
from scorecard.simulated_world import Planned, World
from tests.support.invariants import invariants

PROCESSES = 2
FIRINGS_PER_SEED = 100


@dataclass(frozen=True, slots=True)
class Played:
    """The result of one seed."""

    seed: int
    firings: int
    digest: str
    """Digest of the sequence of (schedule, due, attempt, status)."""
    failures: tuple[str, ...]


def measure(scale: Scale, tell: Tell) -> Result:
    """Play many seeds, then some of them once more in other processes, which have to do exactly the same."""
    count, replays = scale.of(10_000, 5), scale.of(100, 1)
    results, again = [], []
    for played in _play_all(range(count), parallel=scale is not Scale.SMALL):
        results.append(played)
        tell(f"{len(results):,} of {count:,} seeds")
    for played in _play_all(range(0, count, count // replays), parallel=scale is not Scale.SMALL):
        again.append(played)
    firings = sum(played.firings for played in results)
    failures = [f"seed {one.seed}: {failure} ({_replay(one.seed)})" for one in results for failure in one.failures]
    digests = {played.seed: played.digest for played in results}
    differ = [played.seed for played in again if digests[played.seed] != played.digest]
    failures += [f"seed {seed} did something else the second time ({_replay(seed)})" for seed in differ]
    if firings < FIRINGS_PER_SEED * count:
        failures.append(f"only {firings:,} firings in {count:,} seeds: the worlds are too quiet")
    measured = f"{len(failures)} failures; {len(again) - len(differ)} of {len(again)} replayed seeds identical"
    return Result({"seeds": count, "firings": firings}, measured, tuple(failures))


def _replay(seed: int) -> str:
    return f"replay: python -m scorecard.simulation {seed}"


def _play_all(seeds: Iterable[int], *, parallel: bool) -> Iterator[Played]:
    if not parallel:
        yield from map(play, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        yield from pool.imap_unordered(play, seeds, chunksize=10)


def play(seed: int) -> Played:
    """Play one seed and check what it did."""
    log = logging.getLogger("duetime")
    level = log.level
    log.setLevel(logging.CRITICAL)  # what goes wrong here goes wrong on purpose
    world = World(seed)
    try:
        ended = world.play()
        failures = [] if ended else ["something was still under way long after the last fault"]
        runs = _runs(world)
        failures += _check(world, runs)
        sequence = [(run.name, run.due, run.attempt, run.status) for run in runs]
    finally:
        world.close()
        log.setLevel(level)
    return Played(seed, len(world.executions), hashlib.sha256(repr(sequence).encode()).hexdigest(), tuple(failures))


def _runs(world: World) -> list[Run]:
    """Return all runs, in the order in which they were made."""
    found = world.store.runs(RunQuery(limit=100_000, count_to=0)).items
    return sorted(found, key=lambda run: run.id)


# -- checks --------------------------------------------------------------------------------------------------------


def _check(world: World, runs: Sequence[Run]) -> list[str]:
    failures = list(world.doubled)
    try:
        invariants(world.store)
    except AssertionError as error:
        failures.append(f"the store contradicts itself: {error}")
    by_name = defaultdict(list)
    for run in runs:
        by_name[run.name].append(run)
    for number, planned in enumerate(world.planned):
        failures += _uncovered(planned, by_name[f"schedule {number}"], world)
        failures += _lost_retries(planned, by_name[f"schedule {number}"], world)
    return failures + _wrong_executions(world) + _wrong_outcomes(world, runs)


def _uncovered(planned: Planned, runs: Sequence[Run], world: World) -> list[str]:
    """Check that every instant of the definition, and no other, has its own row or lies in a range.

    After the clock was set back, instants inside a range come again and may have a row of their own as well.
    """
    triggered = [run for run in runs if run.cause == Cause.TRIGGER]
    own = {run.due for run in triggered if run.last is None}
    nominal = set(planned.instants(world.clock.now()))
    ever = set(planned.instants(world.latest + LEAD))
    ranges = [(run.due, run.last, run.number) for run in triggered if run.last is not None]
    inside = {at for first, last, _ in ranges for at in ever if first <= at <= last}
    missing = sorted(nominal - own - inside)
    failures = [f"{planned.public_id} at {at} has no row" for at in missing]
    failures += [f"{planned.public_id} has a row at {at}, where it is never due" for at in sorted(own - ever)]
    for first, last, number in ranges:
        others = {at for begin, end, _ in ranges if begin != first for at in ever if begin <= at <= end}
        least = sum(1 for at in ever - own - others if first <= at <= last)
        most = sum(1 for at in (ever if world.set_back else ever - own) if first <= at <= last)
        if not least <= number <= most:
            failures.append(f"{planned.public_id}: the range {first} to {last} says {number}, not {least} to {most}")
    return failures


def _lost_retries(planned: Planned, runs: Sequence[Run], world: World) -> list[str]:
    """Check that a run failed only if it had all its attempts, or if trying again cannot help."""
    most = planned.policy.get("max_attempts", 1)
    permanent = {(done.run, done.fence) for done in world.executions if done.ends == "permanent"}
    return [
        f"run {run.id} failed at attempt {run.attempt} of {most}"
        for run in runs
        if run.status == RunStatus.FAILED and run.attempt < most and not run.deaths
        if (run.id, run.fence) not in permanent
    ]


def _wrong_executions(world: World) -> list[str]:
    early = [done for done in world.executions if done.latest < done.due]
    once = {planned.public_id for planned in world.planned if planned.policy.get("at_most_once")}
    rows = world.store._rows("SELECT id, public_id FROM schedules", ())
    ids = {schedule for schedule, public_id in rows if public_id in once}
    repeated = Counter((done.schedule, done.due) for done in world.executions if done.schedule in ids)
    return [f"run {done.run} began {done.due - done.latest} µs early" for done in early] + [
        f"{schedule} at {due} runs at most once and ran {times} times"
        for (schedule, due), times in repeated.items()
        if times > 1
    ]


def _wrong_outcomes(world: World, runs: Sequence[Run]) -> list[str]:
    """Check that each recorded outcome is that of an execution under its fence, and does not change."""
    ended = {(done.run, done.fence): done.ends for done in world.executions}
    failures = []
    for run in runs:
        if run.status == RunStatus.COMPLETED and ended.get((run.id, run.fence)) != "Completed":
            failures.append(f"run {run.id} is completed, and no execution under its fence was")
        said = [fence for (id_, fence), outcome in world.recorded.items() if id_ == run.id and outcome == "Completed"]
        if said and (run.status != RunStatus.COMPLETED or len(said) > 1):
            failures.append(f"run {run.id} was recorded as completed {len(said)} times and is {run.status}")
    return failures


def main(seed: int) -> int:
    """Replay one seed: its sequence first, then what is wrong with it."""
    world = World(seed)
    world.play()
    for run in _runs(world):
        print(run.name, run.due, run.attempt, run.status)
    world.close()
    played = play(seed)
    print(f"\nseed {seed}: {played.firings} firings, sequence {played.digest[:16]}")
    print("\n".join(played.failures) or "nothing is wrong")
    return 1 if played.failures else 0


if __name__ == "__main__":
    logging.getLogger("duetime").setLevel(logging.CRITICAL)
    sys.exit(main(int(sys.argv[1])))
