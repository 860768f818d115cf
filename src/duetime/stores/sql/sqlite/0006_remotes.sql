-- Notifications that another service keeps and fires: whose they are, and what is needed to list them.
-- `at`: when a one-off goes out; a recurring one has none. `remote`: what the other service calls it, once it said so.
CREATE TABLE remotes (
  id TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  kind TEXT NOT NULL,
  topic TEXT NOT NULL,
  trigger TEXT NOT NULL,
  payload TEXT NOT NULL,
  at INTEGER,
  remote TEXT,
  state TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX remotes_key ON remotes (owner, key);
CREATE INDEX remotes_list ON remotes (owner, topic);
CREATE INDEX remotes_unsure ON remotes (owner, fingerprint) WHERE state = 'unsure';
CREATE INDEX remotes_over ON remotes (at) WHERE at IS NOT NULL;
