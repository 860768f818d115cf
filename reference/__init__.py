"""The reference in `docs/reference`, made from the code that it describes."""
