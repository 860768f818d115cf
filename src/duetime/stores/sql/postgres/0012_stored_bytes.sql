-- About how many bytes an owner's schedules and results take, for its limit; `counted` is when they were last summed up.
CREATE TABLE stored_bytes (
  owner text PRIMARY KEY,
  bytes bigint NOT NULL,
  counted bigint NOT NULL
);
