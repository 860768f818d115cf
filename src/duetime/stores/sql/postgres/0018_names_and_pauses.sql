-- A schedule is found by its name, whatever its case, at the cost of one lookup. The key of a deleted schedule begins
-- with '~gone-'; compared exactly as in `stores/search.py`.
CREATE INDEX schedules_by_name ON schedules (lower(name), owner, id) WHERE substr(key, 1, 6) <> '~gone-';

-- When a pause ends by itself; an entry of the due queue at this instant resumes the schedule.
ALTER TABLE schedules ADD COLUMN resume_at bigint;
