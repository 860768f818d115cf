-- What an owner's agents used on one day, for its limits; `day` is the instant at which it begins, dollars are millionths.
CREATE TABLE spent (
  owner TEXT NOT NULL,
  day INTEGER NOT NULL,
  subject TEXT NOT NULL,
  runs INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  micros INTEGER NOT NULL,
  PRIMARY KEY (owner, day, subject)
) WITHOUT ROWID, STRICT;
