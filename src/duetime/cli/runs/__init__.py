"""Commands that show runs and upcoming times."""
