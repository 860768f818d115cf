-- Lists in the order of creation, by owner alone, by kind and by status: a first page then reads a page and no more.
CREATE INDEX progress_by_owner ON progress (owner, schedule) WHERE state <> 'deleted';
CREATE INDEX progress_by_kind ON progress (owner, kind, schedule) WHERE state <> 'deleted';
CREATE INDEX progress_by_state ON progress (owner, state, schedule);
CREATE INDEX progress_failed ON progress (owner, schedule)
  WHERE state = 'ended' AND (last_status IS NULL OR last_status <> 'completed')
    OR state IN ('active', 'paused') AND last_status IN ('failed', 'lost');

-- What changed lately, whoever's it is.
CREATE INDEX schedules_updated ON schedules (updated);

-- Of the many runs most completed and most are jobs; these find the others without walking through all.
-- Compared one by one: for a longer IN, SQLite fills a table of its own with every run that is written.
CREATE INDEX runs_unwell ON runs (owner, id) WHERE status <> 'completed' AND status <> 'running'
  AND status <> 'pending' AND status <> 'queued' AND status <> 'waiting';
CREATE INDEX runs_by_kind ON runs (owner, kind, id) WHERE kind <> 'job';
CREATE INDEX runs_dead ON runs (owner, id) WHERE status IN ('failed', 'lost') AND kind IN ('notification', 'request');
