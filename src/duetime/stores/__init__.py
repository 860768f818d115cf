"""Storage of schedules and runs: one transaction flow, implemented for SQLite and for PostgreSQL."""
