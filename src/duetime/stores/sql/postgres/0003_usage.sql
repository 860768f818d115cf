-- Runs of one owner in one hour, for the limit of runs an hour; `hour` is the instant at which it begins.
CREATE TABLE usage (
  owner text NOT NULL,
  hour bigint NOT NULL,
  runs bigint NOT NULL,
  PRIMARY KEY (owner, hour)
);
