-- 1 if another schedule may follow this one, so that the ends of its runs are events.
ALTER TABLE progress ADD COLUMN followed INTEGER NOT NULL DEFAULT 0;

-- Code from before would not write those events: it must not write.
UPDATE meta SET value = 25 WHERE key = 'floor';
