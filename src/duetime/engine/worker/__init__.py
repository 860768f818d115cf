"""The worker: it claims due runs, executes them in threads and records their outcomes."""
