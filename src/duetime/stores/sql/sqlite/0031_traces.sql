-- The span of the request that started a run manually, if requests are traced; NULL for all other runs.
ALTER TABLE runs ADD COLUMN trace TEXT;

-- The floor stays: code from before reads and writes everything else, and leaves this column empty.
