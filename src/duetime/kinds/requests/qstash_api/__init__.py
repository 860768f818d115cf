"""QStash-compatible HTTP API over Duetime's store, so that any QStash client can use a self-hosted Duetime."""
