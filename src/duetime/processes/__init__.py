"""The supervisor of child processes, which every kind uses that starts some."""
