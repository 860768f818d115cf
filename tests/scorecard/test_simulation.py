"""Seeds of the simulation that once found a defect."""

from __future__ import annotations

import pytest

from scorecard.simulation import play


@pytest.mark.parametrize("seed", [144, 414, 453])
def test_no_outcome_is_lost_if_the_store_fails_between_two_exchanges(seed: int) -> None:
    """The worker had taken outcomes off its list, and read the queue before it recorded them."""
    assert play(seed).failures == ()
