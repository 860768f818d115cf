"""Decisions as pure functions: rows in, `Writes` out. Stores apply them and never decide."""
