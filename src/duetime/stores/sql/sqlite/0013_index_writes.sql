-- Lists by owner and by kind follow the definitions, which workers never write: a run then touches fewer indexes.
-- The key of a deleted schedule begins with '~gone-'; compared exactly as in `stores/search.py`.
CREATE INDEX schedules_by_owner ON schedules (owner, id) WHERE substr(key, 1, 6) <> '~gone-';
CREATE INDEX schedules_by_kind ON schedules (owner, kind, id) WHERE substr(key, 1, 6) <> '~gone-';
DROP INDEX progress_by_owner;
DROP INDEX progress_by_kind;

-- As on PostgreSQL, where an index by the status of the last run would be written with nearly every run.
ALTER TABLE progress ADD COLUMN failing INTEGER GENERATED ALWAYS AS (
  CASE WHEN state = 'ended' AND (last_status IS NULL OR last_status <> 'completed')
    OR state IN ('active', 'paused') AND last_status IN ('failed', 'lost') THEN 1 ELSE 0 END) VIRTUAL;
DROP INDEX progress_failed;
CREATE INDEX progress_failed ON progress (owner, schedule) WHERE failing = 1;
