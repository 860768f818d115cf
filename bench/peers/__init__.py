"""Programs that measure other schedulers. Each runs in an environment of its own and imports nothing of Duetime."""
