-- About how many bytes an owner's schedules and results take, for its limit; `counted` is when they were last summed up.
CREATE TABLE stored_bytes (
  owner TEXT PRIMARY KEY,
  bytes INTEGER NOT NULL,
  counted INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
