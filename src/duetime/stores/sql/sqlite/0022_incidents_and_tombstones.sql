-- What went wrong with a schedule, from the first time until it went well again.
CREATE TABLE incidents (
  id INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  schedule INTEGER NOT NULL,
  trouble TEXT NOT NULL,
  cause TEXT NOT NULL,
  text TEXT NOT NULL,
  run INTEGER,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  number INTEGER NOT NULL,
  alert TEXT NOT NULL,
  due INTEGER,
  told INTEGER,
  reminders INTEGER NOT NULL DEFAULT 0,
  recovered INTEGER,
  resolved INTEGER,
  actor TEXT
) STRICT;
CREATE UNIQUE INDEX incidents_open ON incidents (schedule, cause) WHERE recovered IS NULL;
CREATE INDEX incidents_of ON incidents (owner, id) WHERE recovered IS NULL;
CREATE INDEX incidents_run ON incidents (run) WHERE recovered IS NULL;
CREATE INDEX incidents_due ON incidents (due) WHERE due IS NOT NULL;
CREATE INDEX incidents_told ON incidents (owner, told) WHERE told IS NOT NULL;

-- What a deleted schedule did and its key, for a day, so that it can be restored. No answer shows it.
CREATE TABLE tombstones (
  schedule INTEGER PRIMARY KEY,
  payload TEXT NOT NULL,
  key TEXT NOT NULL,
  deleted INTEGER NOT NULL
) STRICT;

-- When somebody asked a run to stop and who, and when it is to stop if its time was shortened.
ALTER TABLE runs ADD COLUMN stop_request TEXT;
ALTER TABLE runs ADD COLUMN deadline INTEGER;

-- The floor stays: code from before reads and writes everything else, and opens no incident.
