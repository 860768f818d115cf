"""Backoff between attempts, and the hash that spreads work without randomness."""

from __future__ import annotations

from duetime.engine.policy.options import Policy

_MASK = (1 << 64) - 1


def spread(first: int, second: int, width: int) -> int:
    """Return a number in [0, width), the same for the same inputs: a repeated claim must not see another instant."""
    if width <= 0:
        return 0
    mixed = (first * 0x9E3779B97F4A7C15 + second) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return (mixed ^ (mixed >> 31)) % width


def backoff(policy: Policy, run: int, failures: int, asked: int = 0) -> int:
    """Return the delay, doubled with every failure up to a limit and spread over its upper half; at least `asked`."""
    doubled: int = min(policy.backoff_limit, policy.backoff << min(failures - 1, 40))
    half = doubled // 2
    return max(asked, half + spread(run, failures, doubled - half + 1))
