-- Whose each entry is, so that owners can take turns. Code that knows no owner writes none: such entries take one turn.
ALTER TABLE due ADD COLUMN owner text COLLATE "C" NOT NULL DEFAULT '';
UPDATE due SET owner = p.owner FROM progress p WHERE p.schedule = due.schedule;
-- From each owner of a lane to the next, and each one's entries in clock order. The order of all of them stays the key:
-- while less is due than a worker has room for, nobody needs a turn.
CREATE INDEX due_by_owner ON due (lane, owner, at, schedule, run);
