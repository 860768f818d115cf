"""I/O faults: a full, failing or read-only disk, a held lock, no descriptors, no memory. The work goes on by itself."""

from __future__ import annotations

import multiprocessing
import tempfile

from scorecard import io_child
from scorecard.io_child import SORTS, Ended, Tried
from scorecard.line import Result, Scale, Tell

RECOVERY = 5.0
"""Seconds after the end of a fault within which new work has to be carried out."""
TOO_LONG = 60.0


def measure(scale: Scale, tell: Tell) -> Result:
    """Let a process of its own suffer the faults, since some of them concern all of a process."""
    count = scale.of(300, len(SORTS))
    failures: list[str] = []
    tried: list[Tried] = []
    with tempfile.TemporaryDirectory() as folder:
        for answer in _suffer(folder, count):
            if isinstance(answer, str):
                failures.append(answer)
            elif isinstance(answer, Tried):
                tried.append(answer)
                failures += _problems(len(tried), answer)
            else:
                failures += [f"{name} is broken" for name in answer.broken] + answer.uncovered
            tell(f"{len(tried)} of {count} faults")
    longest = max((one.recovery for one in tried), default=0.0)
    heard = sum(one.error is not None for one in tried)
    measured = f"{heard} requests refused with a clear error; longest recovery {longest:.1f} s; broken or lost 0"
    if failures:
        measured = f"{len(failures)} failures; longest recovery {longest:.1f} s"
    return Result({"faults": len(tried), "sorts": len(SORTS)}, measured, tuple(failures))


def _suffer(folder: str, count: int) -> list[Tried | Ended | str]:
    """Return what the process sent, or why it sends no more."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=io_child.main, args=(folder, count, 1, theirs))
    process.start()
    theirs.close()
    answers: list[Tried | Ended | str] = []
    try:
        while not answers or not isinstance(answers[-1], Ended):
            if not ours.poll(TOO_LONG):
                answers.append(f"nothing was heard for {TOO_LONG:g} s after fault {len(answers)}")
                break
            answers.append(ours.recv())
    except EOFError:
        answers.append(f"the process ended after fault {len(answers)}")
    process.join(5)
    process.kill()
    return answers


def _problems(number: int, tried: Tried) -> list[str]:
    name = f"fault {number} ({tried.sort})"
    found = []
    if not tried.clear:
        found.append(f"{name}: the error does not say what to do: {tried.error}")
    if not tried.alive:
        found.append(f"{name}: the worker ended")
    if tried.recovery > RECOVERY:
        found.append(f"{name}: work went on only after {tried.recovery:.1f} s")
    return found
