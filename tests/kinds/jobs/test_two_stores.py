"""Two stores on one cluster, whose runs have the same numbers."""

from __future__ import annotations

from pathlib import Path

from duetime.engine.model import RunStatus
from tests.support.tracking import handed_over, tracked


def test_a_second_store_with_equal_runs_adopts_nothing(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with tracked(str(tmp_path / "one.db")) as one, tracked(str(tmp_path / "two.db")) as two:
        first, second = handed_over(one, "wait_for", str(gate)), handed_over(two, "later", 5)
        assert one.run_of(first).id == two.run_of(second).id
        assert one.store.store_id() != two.store.store_id()
        assert two.ended(second).result == "6"
        assert one.run_of(first).status == RunStatus.WAITING
        assert len(one.cluster.calls) == 1
        gate.touch()
        assert one.ended(first).result == '"done"'
