-- Addresses at which other services report events. The secret verifies their signatures, so it is kept as it is; it
-- is empty until a person asks for one. `deliveries` are the latest ones, as JSON.
CREATE TABLE hooks (
  id text COLLATE "C" PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  scheme text NOT NULL,
  secret text NOT NULL,
  created bigint NOT NULL,
  used bigint,
  deliveries text NOT NULL
);
CREATE UNIQUE INDEX hooks_of ON hooks (owner, name);

-- The floor stays: code from before receives nothing here, and breaks nothing.
