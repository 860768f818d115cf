-- Runs that wait to be taken, oldest first: looked for several times a second while somebody watches them.
CREATE INDEX runs_waiting ON runs (owner, kind, due, id) WHERE status = 'waiting';
