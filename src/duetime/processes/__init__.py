"""The supervisor of child processes, used by every kind that starts processes."""
