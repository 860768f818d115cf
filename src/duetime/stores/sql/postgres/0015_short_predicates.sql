-- SQLite's indexes of live runs and of schedules that are over are written anew here; PostgreSQL's stay as they are.
SELECT 1;
