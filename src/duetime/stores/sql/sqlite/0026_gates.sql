-- What schedules remember: what their gates saw when a run last succeeded, and the outcome that was told last.
CREATE TABLE memories (
  schedule INTEGER PRIMARY KEY,
  gate TEXT,
  number INTEGER NOT NULL DEFAULT 0,
  memory TEXT,
  told TEXT
) STRICT;

-- What its gate gave to a run; NULL for all others.
ALTER TABLE runs ADD COLUMN gate TEXT;

-- Code from before would not check gates, and does not know their options: it must not claim.
UPDATE meta SET value = 26 WHERE key = 'floor';
