"""The service layer that all interfaces share. Every interface works through the scheduler."""

from __future__ import annotations

from typing import Final

MOST_SECONDS: Final = 60
"""How long a caller may wait for the end of a run."""
