"""Generates the reference in `docs/reference` from the code that it describes."""
