"""The two stages of the tests. `make unit` runs the first one, and `make e2e` the tests marked `later`: those of
tests/e2e, and what would make the first stage too long. No test is in both or in neither.

A test says by its marker that it belongs to the later stage: a long one beside a short one of the same file. The tables
here do so for the cases of parametrised tests, of which the first stage runs a small version.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LATER = "later"

FOLDERS = frozenset({"e2e"})
"""Folders whose tests are all in the later stage."""

STORES = {
    "api": "postgres",
    "dashboard": "postgres",
    "faults": "postgres",
    "http": "postgres",
    "kinds": "postgres",
    "net": "postgres",
    "perf": "postgres",
    "service": "postgres",
    "stores": "memory",
}
"""Folders whose tests run on several stores, and the one that the later stage has. tests/stores tries SQL itself, on a
file and on PostgreSQL; one in memory differs from a file in little. The others use stores as anybody does."""

COVERED = {
    "http/test_hooks.py": 1,
    "kinds/notifications/test_qstash_faults.py": 1,
    "kinds/prompts/test_presets.py": 1,
    "service/test_calendar.py": 1,
    "service/test_every_operation.py": 2,
    "service/test_options_on_every_interface.py": 1,
    "service/test_same_change_answers.py": 1,
    "stores/test_completions.py": 2,
    "stores/test_incident_ends.py": 2,
    "stores/test_maintenance.py": 1,
}
"""Files whose tests try every combination of several values: the first stage has each value at least once (1), or each
pair of values (2)."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.path, item.nodeid.partition("[")[0]].append(item)
    for (path, _), cases in tests.items():
        for case in _later(path.relative_to(TESTS), cases):
            case.add_marker(LATER)


def _later(path: Path, cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of one test that belong to the later stage; of a test of another folder, never all."""
    folder = path.parts[0]
    if folder in FOLDERS:
        return cases
    first = [case for case in cases if not _is_on(STORES.get(folder), case)] or cases
    if path.as_posix() in COVERED:
        chosen = cover([_values(case) for case in first], COVERED[path.as_posix()])
        first = [case for number, case in enumerate(first) if number in chosen]
    return [case for case in cases if case not in first]


def _is_on(store: str | None, case: pytest.Item) -> bool:
    """Return whether a case is one of a store; PostgreSQL has two names."""
    return store is not None and not {store, f"{store}ql"}.isdisjoint(_values(case))


def _values(case: pytest.Item) -> tuple[str, ...]:
    """Return the values of a test's parameters, as text."""
    callspec = getattr(case, "callspec", None)
    return () if callspec is None else tuple(str(value) for value in callspec.params.values())


def cover(cases: Sequence[Sequence[str]], together: int = 1) -> set[int]:
    """Return the places of a few cases that have every value of every parameter, or every combination of the values of
    so many parameters `together`; and none of them much oftener than the others."""
    having = [frozenset(combinations(enumerate(case), min(together, len(case)))) for case in cases]
    missing = frozenset().union(*having)
    times: Counter[tuple[int, str]] = Counter()
    chosen: set[int] = set()
    while missing:
        best = min(
            (number for number, its in enumerate(having) if not its.isdisjoint(missing)),
            key=lambda number: (-len(having[number] & missing), sum(times[each] for each in enumerate(cases[number]))),
        )
        chosen.add(best)
        times.update(enumerate(cases[best]))
        missing -= having[best]
    return chosen
