-- Compared one by one, as in 0008: for a longer IN, SQLite fills a table of its own with every row that is written.
DROP INDEX runs_live;
CREATE INDEX runs_live ON runs (schedule, worker)
  WHERE status = 'running' OR status = 'pending' OR status = 'queued' OR status = 'waiting';
DROP INDEX progress_over;
CREATE INDEX progress_over ON progress (schedule) WHERE state = 'ended' OR state = 'cancelled' OR state = 'deleted';
