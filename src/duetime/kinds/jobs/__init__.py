"""Jobs: registered functions that run in a thread, on the event loop or in a process."""
