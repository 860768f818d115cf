-- What an owner's agents used on one day, for its limits; `day` is the instant at which it begins, dollars are millionths.
CREATE TABLE spent (
  owner text NOT NULL,
  day bigint NOT NULL,
  subject text NOT NULL,
  runs bigint NOT NULL,
  tokens bigint NOT NULL,
  micros bigint NOT NULL,
  PRIMARY KEY (owner, day, subject)
);
