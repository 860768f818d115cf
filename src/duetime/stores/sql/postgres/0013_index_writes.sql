-- Lists by owner and by kind follow the definitions, which workers never write: a run then touches fewer indexes.
-- The key of a deleted schedule begins with '~gone-'; compared exactly as in `stores/search.py`.
CREATE INDEX schedules_by_owner ON schedules (owner, id) WHERE substr(key, 1, 6) <> '~gone-';
CREATE INDEX schedules_by_kind ON schedules (owner, kind, id) WHERE substr(key, 1, 6) <> '~gone-';
DROP INDEX progress_by_owner;
DROP INDEX progress_by_kind;
DROP INDEX progress_gone;

-- Whether the last run failed changes rarely, while the status of the last run changes with nearly every run. An update
-- stays on its page, without a new entry in any index, only while no column that an index names changes its value.
ALTER TABLE progress ADD COLUMN failing integer GENERATED ALWAYS AS (
  CASE WHEN state = 'ended' AND (last_status IS NULL OR last_status <> 'completed')
    OR state IN ('active', 'paused') AND last_status IN ('failed', 'lost') THEN 1 ELSE 0 END) STORED;
DROP INDEX progress_failed;
CREATE INDEX progress_failed ON progress (owner, schedule) WHERE failing = 1;
ALTER TABLE progress SET (fillfactor = 40);
