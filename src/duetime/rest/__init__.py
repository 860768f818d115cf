"""The HTTP API: schedules, runs and what stands behind them, for programs. Described at `/api/openapi.json`."""
