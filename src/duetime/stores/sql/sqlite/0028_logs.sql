-- What attempts of runs wrote: the beginning and the end, in parts of whole lines. `fence` is that of the claim, `part` how
-- many bytes the attempt had written before: where a part does not begin at the end of the one before, some are left out.
CREATE TABLE run_logs (
  run INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  part INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (run, fence, part)
) STRICT, WITHOUT ROWID;

-- Logs go with their run, also if code from before deletes it.
CREATE TRIGGER run_logs_gone AFTER DELETE ON runs BEGIN
  DELETE FROM run_logs WHERE run = OLD.id;
END;

-- The floor stays: code from before reads and writes everything else, and keeps no logs.
