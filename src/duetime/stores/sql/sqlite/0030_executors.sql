-- A random number that tells this store from all others: clusters know the runs of a store by it. A copy has the same.
INSERT INTO meta (key, value) VALUES ('store', random());

-- What the worker that tracks an executor, such as a cluster, last saw of it.
CREATE TABLE executors (
  name TEXT PRIMARY KEY,
  type TEXT NOT NULL,
  workers INTEGER,
  problem TEXT,
  seen INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The floor stays: code from before knows no executors, and hands nothing over.
