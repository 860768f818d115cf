"""Decisions as pure functions: rows in, `Writes` out. Stores carry them out and never decide."""
