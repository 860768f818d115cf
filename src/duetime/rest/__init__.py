"""The HTTP API for programs: schedules, runs, workers, agents and channels. Described at `/api/openapi.json`."""
