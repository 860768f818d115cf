-- No fewer than an owner's living schedules: creates add to it, endings do not subtract; `counted` is when it was exact.
-- Every create updates its owner's row; free space in the pages keeps that from touching the index.
CREATE TABLE living_counts (
  owner text PRIMARY KEY,
  living bigint NOT NULL,
  counted bigint NOT NULL
) WITH (fillfactor = 20);
