"""Storage of schedules and runs: one transaction flow, implemented on SQLite and on PostgreSQL."""
