-- Each worker says how long its silence may last: others judge it by its own lease, not by theirs.
ALTER TABLE workers ADD COLUMN lease INTEGER NOT NULL DEFAULT 10000000;
