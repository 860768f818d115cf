-- The same tables as on SQLite; instants are bigint microseconds, so that no time zone of the server plays a part.
-- COLLATE "C": keys are compared by bytes, the same on every server, and lower() folds ASCII alone, as SQLite's does.

-- A block of ids is drawn by the statement that needs them; gaps are fine, and an id is never used again.
CREATE SEQUENCE schedule_ids;
CREATE SEQUENCE run_ids;
CREATE SEQUENCE worker_ids;

-- Definitions: cold and wide, written by people.
CREATE TABLE schedules (
  id bigint PRIMARY KEY,
  public_id text COLLATE "C" NOT NULL UNIQUE,
  kind text COLLATE "C" NOT NULL,
  owner text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  trigger text NOT NULL,
  payload text NOT NULL,
  policy text NOT NULL,
  depth integer NOT NULL,
  version bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,
  created bigint NOT NULL,
  updated bigint NOT NULL
);
CREATE UNIQUE INDEX schedules_key ON schedules (owner, key);

-- Progress: hot and narrow; owner and kind are copied so that one index serves every list.
-- Room on every page keeps an update on its page, where it needs no new index entry and the next one clears it up.
CREATE TABLE progress (
  schedule bigint PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL,
  next bigint,
  through bigint,
  run_count bigint NOT NULL,
  active bigint NOT NULL,
  queued bigint NOT NULL,
  gap bigint,
  last_status text COLLATE "C",
  last_run bigint,
  last_error text,
  failures bigint NOT NULL,
  note text
) WITH (
  fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX progress_list ON progress (owner, state, kind, schedule);
CREATE INDEX progress_gone ON progress (schedule) WHERE state = 'deleted';

-- The due queue in clock order: the only thing that a claim scans. Its rows live shortly, so it is cleaned often.
CREATE TABLE due (
  lane text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  schedule bigint NOT NULL,
  run bigint NOT NULL,
  PRIMARY KEY (lane, at, schedule, run)
) WITH (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0.1
);
CREATE UNIQUE INDEX due_of ON due (schedule, run);

-- Runs outlive their schedules: kind, owner and name are copied.
CREATE TABLE runs (
  id bigint PRIMARY KEY,
  schedule bigint NOT NULL,
  cause text COLLATE "C" NOT NULL,
  due bigint NOT NULL,
  status text COLLATE "C" NOT NULL,
  attempt integer NOT NULL,
  deaths integer NOT NULL,
  fence bigint NOT NULL,
  worker bigint,
  holder text,
  started bigint,
  finished bigint,
  until bigint,
  expires bigint,
  result text,
  error text,
  report text,
  stop integer NOT NULL,
  last bigint,
  number bigint NOT NULL,
  kind text COLLATE "C" NOT NULL,
  owner text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX runs_once ON runs (schedule, due, cause);
CREATE INDEX runs_owner ON runs (owner, id);
CREATE INDEX runs_live ON runs (schedule, worker) WHERE status IN ('pending', 'queued', 'running', 'waiting');

CREATE TABLE attempts (
  run bigint NOT NULL,
  number integer NOT NULL,
  started bigint,
  finished bigint NOT NULL,
  status text COLLATE "C" NOT NULL,
  error text,
  PRIMARY KEY (run, number)
);

-- Every worker's row is rewritten with every beat: room on the page lets it stay where it is.
CREATE TABLE workers (
  id bigint PRIMARY KEY,
  name text NOT NULL,
  lanes text NOT NULL,
  session integer NOT NULL,
  started bigint NOT NULL,
  beat bigint NOT NULL,
  seen bigint NOT NULL
) WITH (fillfactor = 50);

-- `schema`: the version that this database has. `floor`: the oldest version whose code may still write.
CREATE TABLE meta (key text COLLATE "C" PRIMARY KEY, value bigint NOT NULL);
INSERT INTO meta (key, value) VALUES ('floor', 1);
