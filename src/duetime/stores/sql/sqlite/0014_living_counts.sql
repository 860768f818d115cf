-- No fewer than an owner's living schedules: creates add to it, endings do not subtract; `counted` is when it was exact.
CREATE TABLE living_counts (
  owner TEXT PRIMARY KEY,
  living INTEGER NOT NULL,
  counted INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
