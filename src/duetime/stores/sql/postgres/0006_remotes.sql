-- Notifications that another service keeps and fires: whose they are, and what is needed to list them.
-- `at`: when a one-off goes out; a recurring one has none. `remote`: what the other service calls it, once it said so.
CREATE TABLE remotes (
  id text COLLATE "C" PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  topic text COLLATE "C" NOT NULL,
  trigger text NOT NULL,
  payload text NOT NULL,
  at bigint,
  remote text,
  state text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint text COLLATE "C" NOT NULL,
  created bigint NOT NULL,
  updated bigint NOT NULL
);
CREATE UNIQUE INDEX remotes_key ON remotes (owner, key);
CREATE INDEX remotes_list ON remotes (owner, topic);
CREATE INDEX remotes_unsure ON remotes (owner, fingerprint) WHERE state = 'unsure';
CREATE INDEX remotes_over ON remotes (at) WHERE at IS NOT NULL;
