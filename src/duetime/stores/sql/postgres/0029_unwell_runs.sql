-- The runs that did not complete, with what a list counts and looks for: those with a rare status, or of some hours, are
-- found without reading the rows of all that failed. The completed ones, of which there are many, are not in it.
CREATE INDEX runs_unwell_statuses ON runs (owner, id, status, due) WHERE status <> 'completed' AND status <> 'running'
  AND status <> 'pending' AND status <> 'queued' AND status <> 'waiting';
