-- Which of the runs in a worker's hands had not begun at its last beat; NULL where that is unknown.
ALTER TABLE workers ADD COLUMN not_begun text;
-- How often in a row a run had not begun when its worker died, beside its fence then; written by rescues alone.
ALTER TABLE runs ADD COLUMN spared bigint NOT NULL DEFAULT 0;
