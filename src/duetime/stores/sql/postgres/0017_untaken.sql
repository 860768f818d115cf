-- Of the active runs, those that wait and that nobody has taken: a recurring schedule is pending while there is no other.
ALTER TABLE progress ADD COLUMN untaken bigint NOT NULL DEFAULT 0;
UPDATE progress SET untaken = (
  SELECT count(*) FROM runs r WHERE r.schedule = progress.schedule AND r.status = 'waiting' AND r.holder IS NULL)
WHERE schedule IN (SELECT schedule FROM runs WHERE status = 'waiting' AND holder IS NULL);
