-- What the server has other processes on this store know of its settings, as JSON: the zone, the default topic, and the
-- names and types of agents and channels. No secret is in it.
CREATE TABLE published (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  settings TEXT NOT NULL
) STRICT;
