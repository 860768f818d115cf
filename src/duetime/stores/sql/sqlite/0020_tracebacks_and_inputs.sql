-- Where an exception of a task was raised, redacted and shortened. Only failures write it.
ALTER TABLE runs ADD COLUMN traceback TEXT;
ALTER TABLE attempts ADD COLUMN traceback TEXT;

-- The input of a run that was started with another one than its schedule has; NULL for all others.
ALTER TABLE runs ADD COLUMN payload TEXT;

-- Code from before would run such a run with the input of its schedule: it must not claim.
UPDATE meta SET value = 20 WHERE key = 'floor';
