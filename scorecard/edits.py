"""Random edits, pauses, moves and retries over 60 simulated days: whether the books agree with what each schedule did.

`python -m scorecard.edits SEED` replays one seed and shows its runs.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from duetime.engine.model import LIVE, Cause, Run
from duetime.engine.store import RunQuery
from scorecard.edited_world import START, Book, EditedWorld
from scorecard.line import Result, Scale, Tell
from tests.support.invariants import invariants

PROCESSES = 2
ACTS_PER_SEED = 40


@dataclass(frozen=True, slots=True)
class Played:
    """The result of one seed."""

    seed: int
    acts: int
    occurrences: int
    digest: str
    """Digest of all rows of runs."""
    failures: tuple[str, ...]


def measure(scale: Scale, tell: Tell) -> Result:
    """Play many seeds, then some of them once more in other processes, which have to do exactly the same."""
    count, replays = scale.of(1_000, 5), scale.of(20, 1)
    results: list[Played] = []
    for played in _play_all(range(count), parallel=scale is not Scale.SMALL):
        results.append(played)
        tell(f"{len(results):,} of {count:,} seeds")
    again = list(_play_all(range(0, count, count // replays), parallel=scale is not Scale.SMALL))
    failures = [f"seed {one.seed}: {failure} ({_replay(one.seed)})" for one in results for failure in one.failures]
    digests = {played.seed: played.digest for played in results}
    differ = [played.seed for played in again if digests[played.seed] != played.digest]
    failures += [f"seed {seed} did something else the second time ({_replay(seed)})" for seed in differ]
    acts, occurrences = sum(one.acts for one in results), sum(one.occurrences for one in results)
    if acts < ACTS_PER_SEED * count:
        failures.append(f"only {acts:,} changes in {count:,} seeds: the worlds are too quiet")
    measured = f"{len(failures)} failures; {len(again) - len(differ)} of {len(again)} replayed seeds identical"
    return Result({"seeds": count, "changes": acts, "occurrences": occurrences}, measured, tuple(failures))


def _replay(seed: int) -> str:
    return f"replay: python -m scorecard.edits {seed}"


def _play_all(seeds: Iterable[int], *, parallel: bool) -> Iterator[Played]:
    if not parallel:
        yield from map(play, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        yield from pool.imap_unordered(play, seeds, chunksize=5)


def play(seed: int) -> Played:
    """Play one seed, and compare what it did with its books."""
    world = EditedWorld(seed)
    try:
        world.play()
        runs = _runs(world)
        failures, occurrences = list(world.failures), 0
        if not failures:
            for book in world.books:
                own = [run for run in runs if run.schedule == world.schedule(book).definition.id]
                nominal = book.instants(START, world.clock.now())
                failures += contradictions(book, nominal, [run for run in own if run.cause == Cause.TRIGGER])
                occurrences += len(nominal)
        try:
            invariants(world.store)
        except AssertionError as error:
            failures.append(f"the store contradicts itself: {error}")
    finally:
        world.close()
    digest = hashlib.sha256(repr(runs).encode()).hexdigest()
    return Played(seed, world.acts, occurrences, digest, tuple(failures))


def _runs(world: EditedWorld) -> list[Run]:
    """Return all runs, in the order in which they were made."""
    return sorted(world.store.runs(RunQuery(limit=100_000, count_to=0)).items, key=lambda run: run.id)


def contradictions(book: Book, nominal: Sequence[int], runs: Sequence[Run]) -> Iterator[str]:
    """Check that every occurrence has a run of its own, or lies in exactly one row that says why it did not run."""
    own = {run.due for run in runs if run.last is None}
    ranges = [run for run in runs if run.last is not None]
    for at in nominal:
        rows = [run for run in ranges if run.due <= at <= (run.last or 0)]
        if not rows and at not in own:
            yield f"{book.public_id} at {at} has no row"
        if rows and at in own:
            yield f"{book.public_id} at {at} ran, and lies in the range {rows[0].due} to {rows[0].last}"
        if len(rows) > 1:
            yield f"{book.public_id} at {at} lies in {len(rows)} ranges"
    for at in sorted(own - set(nominal)):
        yield f"{book.public_id} has a row at {at}, where it is not due"
    for run in ranges:
        inside = sum(run.due <= at <= (run.last or 0) for at in nominal)
        if not (run.number == inside or 0 < -run.number <= inside):
            yield f"{book.public_id}: the range {run.due} to {run.last} says {run.number}, and has {inside}"
        if not run.error:
            yield f"{book.public_id}: the range {run.due} to {run.last} has no reason"
    yield from (f"{book.public_id}: run {run.id} failed without a reason" for run in runs if _is_silent(run))


def _is_silent(run: Run) -> bool:
    return run.status not in LIVE and run.status != "completed" and not run.error


def main(seed: int) -> int:
    """Replay one seed: its runs first, then what is wrong with it."""
    world = EditedWorld(seed)
    world.play()
    for run in _runs(world):
        print(run.name, run.cause, run.due, run.last, run.number, run.status, run.error or "")
    world.close()
    played = play(seed)
    print(f"\nseed {seed}: {played.acts} changes, {played.occurrences} occurrences, {played.digest[:16]}")
    print("\n".join(played.failures) or "nothing is wrong")
    return 1 if played.failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
