-- Tokens, sessions and links that serve nobody any more; `expires` is when they would have ended anyway.
CREATE TABLE revocations (
  id text COLLATE "C" PRIMARY KEY,
  at bigint NOT NULL,
  expires bigint NOT NULL
);
CREATE INDEX revocations_expired ON revocations (expires);

-- How often an owner's signing key was rotated, and how often within the hour that began at `since`.
CREATE TABLE rotations (
  owner text COLLATE "C" PRIMARY KEY,
  generation bigint NOT NULL,
  since bigint NOT NULL,
  recent bigint NOT NULL
);
