"""What a run is compared with: how long others took, and the input of the last that succeeded."""

from __future__ import annotations

import pytest

from duetime.service.operations.compare_runs import InputDifference, input_differences, share_done


@pytest.mark.parametrize(
    ("report", "percent"),
    [
        ("40 %", 40.0),
        ("done 12.5% of it", 12.5),
        ("3 of 12 orders", 25.0),
        ("page 7/7", 100.0),
        ("200 %", 100.0),
        ("12 of 3", None),
        ("1 of 0", None),
        ("2026/10/12", None),
        ("working", None),
        (None, None),
    ],
)
def test_a_report_says_how_much_is_done(report: str | None, percent: float | None) -> None:
    assert share_done(report) == percent


def test_inputs_differ_by_field_and_by_named_argument() -> None:
    before = {"task": "a", "args": [1], "kwargs": {"x": 1, "y": 2}, "old": True}
    payload = {"task": "a", "args": [2], "kwargs": {"x": 1, "y": 3, "z": 4}}
    assert input_differences(payload, before) == [
        InputDifference("args", [2], [1]),
        InputDifference("kwargs.y", 3, 2),
        InputDifference("kwargs.z", 4, None),
        InputDifference("old", None, True),
    ]
    assert input_differences(payload, payload) == [] == input_differences(None, before)
