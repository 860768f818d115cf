-- Runs of one owner in one hour, for the limit of runs an hour; `hour` is the instant at which it begins.
CREATE TABLE usage (
  owner TEXT NOT NULL,
  hour INTEGER NOT NULL,
  runs INTEGER NOT NULL,
  PRIMARY KEY (owner, hour)
) STRICT, WITHOUT ROWID;
