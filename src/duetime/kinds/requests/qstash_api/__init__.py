"""QStash's HTTP API over Duetime's own store, so that any client of it can use a Duetime of one's own."""
