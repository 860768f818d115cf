"""The worker: it claims due runs, carries them out in threads and records how they ended."""
