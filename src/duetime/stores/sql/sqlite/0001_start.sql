-- Definitions: cold and wide, written by people.
CREATE TABLE schedules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  public_id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  subject TEXT NOT NULL,
  trigger TEXT NOT NULL,
  payload TEXT NOT NULL,
  policy TEXT NOT NULL,
  depth INTEGER NOT NULL,
  version INTEGER NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX schedules_key ON schedules (owner, key);

-- Progress: hot and narrow; owner and kind are copied so that one index serves every list.
CREATE TABLE progress (
  schedule INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  next INTEGER,
  through INTEGER,
  run_count INTEGER NOT NULL,
  active INTEGER NOT NULL,
  queued INTEGER NOT NULL,
  gap INTEGER,
  last_status TEXT,
  last_run INTEGER,
  last_error TEXT,
  failures INTEGER NOT NULL,
  note TEXT
) STRICT;
CREATE INDEX progress_list ON progress (owner, state, kind, schedule);

-- The due queue in clock order: the only thing that a claim scans.
CREATE TABLE due (
  lane TEXT NOT NULL,
  at INTEGER NOT NULL,
  schedule INTEGER NOT NULL,
  run INTEGER NOT NULL,
  PRIMARY KEY (lane, at, schedule, run)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX due_of ON due (schedule, run);

-- Runs outlive their schedules: kind, owner and name are copied.
CREATE TABLE runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  schedule INTEGER NOT NULL,
  cause TEXT NOT NULL,
  due INTEGER NOT NULL,
  status TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  deaths INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  worker INTEGER,
  holder TEXT,
  started INTEGER,
  finished INTEGER,
  until INTEGER,
  expires INTEGER,
  result TEXT,
  error TEXT,
  report TEXT,
  stop INTEGER NOT NULL,
  last INTEGER,
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  owner TEXT NOT NULL,
  name TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX runs_once ON runs (schedule, due, cause);
CREATE INDEX runs_owner ON runs (owner, id);
CREATE INDEX runs_live ON runs (schedule, worker) WHERE status IN ('pending', 'queued', 'running', 'waiting');

CREATE TABLE attempts (
  run INTEGER NOT NULL,
  number INTEGER NOT NULL,
  started INTEGER,
  finished INTEGER NOT NULL,
  status TEXT NOT NULL,
  error TEXT,
  PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  lanes TEXT NOT NULL,
  session INTEGER NOT NULL,
  started INTEGER NOT NULL,
  beat INTEGER NOT NULL,
  seen INTEGER NOT NULL
) STRICT;

-- `floor`: the oldest schema version whose code may still write.
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('floor', 1);
