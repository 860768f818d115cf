-- Who wrote the payload of a schedule last; NULL if it was stored before this was known.
ALTER TABLE schedules ADD COLUMN author TEXT;

-- Who started a run manually, and wrote its own input; NULL for all other runs.
ALTER TABLE runs ADD COLUMN actor TEXT;

-- Who retried the run after this attempt, and when; NULL if the attempt was followed by an automatic one.
ALTER TABLE attempts ADD COLUMN actor TEXT;
ALTER TABLE attempts ADD COLUMN retried INTEGER;

-- The floor stays: code from before reads and writes everything else, and leaves these columns empty.
