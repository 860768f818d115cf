-- Tokens, sessions and links that serve nobody any more; `expires` is when they would have ended anyway.
CREATE TABLE revocations (
  id TEXT PRIMARY KEY,
  at INTEGER NOT NULL,
  expires INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX revocations_expired ON revocations (expires);

-- How often an owner's signing key was rotated, and how often within the hour that began at `since`.
CREATE TABLE rotations (
  owner TEXT PRIMARY KEY,
  generation INTEGER NOT NULL,
  since INTEGER NOT NULL,
  recent INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
