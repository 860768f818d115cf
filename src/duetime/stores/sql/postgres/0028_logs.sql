-- What attempts of runs wrote: the beginning and the end, in parts of whole lines. `fence` is that of the claim, `part` how
-- many bytes the attempt had written before: where a part does not begin at the end of the one before, some are left out.
-- Logs go with their run, also if code from before deletes it.
CREATE TABLE run_logs (
  run bigint NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  fence bigint NOT NULL,
  part bigint NOT NULL,
  attempt integer NOT NULL,
  at bigint NOT NULL,
  text text NOT NULL,
  PRIMARY KEY (run, fence, part)
);

-- The floor stays: code from before reads and writes everything else, and keeps no logs.
