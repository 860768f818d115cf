"""Benchmarks: what a run costs, whether that grows with the number of schedules, and how punctual starts are."""
