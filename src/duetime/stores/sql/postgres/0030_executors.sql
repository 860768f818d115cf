-- A random number that tells this store from all others: clusters know the runs of a store by it. A copy has the same.
INSERT INTO meta (key, value)
VALUES ('store', ('x' || replace(left(gen_random_uuid()::text, 18), '-', ''))::bit(64)::bigint);

-- What the worker that tracks an executor, such as a cluster, last saw of it.
CREATE TABLE executors (
  name text COLLATE "C" PRIMARY KEY,
  type text NOT NULL,
  workers bigint,
  problem text,
  seen bigint NOT NULL
);

-- The floor stays: code from before knows no executors, and hands nothing over.
