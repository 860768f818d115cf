-- Addresses at which other services report events. The secret verifies their signatures, so it is kept as it is; it
-- is empty until a person asks for one. `deliveries` are the latest ones, as JSON.
CREATE TABLE hooks (
  id TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  scheme TEXT NOT NULL,
  secret TEXT NOT NULL,
  created INTEGER NOT NULL,
  used INTEGER,
  deliveries TEXT NOT NULL
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX hooks_of ON hooks (owner, name);

-- The floor stays: code from before receives nothing here, and breaks nothing.
