-- Who wrote the payload of a schedule last; NULL if it was stored before this was known.
ALTER TABLE schedules ADD COLUMN author text;

-- Who started a run manually, and wrote its own input; NULL for all other runs.
ALTER TABLE runs ADD COLUMN actor text;

-- Who retried the run after this attempt, and when; NULL if the attempt was followed by an automatic one.
ALTER TABLE attempts ADD COLUMN actor text;
ALTER TABLE attempts ADD COLUMN retried bigint;

-- The floor stays: code from before reads and writes everything else, and leaves these columns empty.
