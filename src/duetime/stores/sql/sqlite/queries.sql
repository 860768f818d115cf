-- name: next_schedule_id
-- Explicit ids keep AUTOINCREMENT's promise (never reused) and let a batch know its ids before it is written.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'schedules'), 0) + 1

-- name: next_run_id
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0) + 1

-- name: insert_schedule
INSERT INTO schedules (id, public_id, kind, owner, name, subject, trigger, payload, policy, depth, version, key,
  fingerprint, created, updated, author, resume_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: new_schedules
-- Inserting into this view creates schedules by a single statement, which commits by itself. Between two statements of a
-- transaction, a thread may wait for the interpreter lock, and meanwhile everybody else waits for the write lock.
CREATE TEMP VIEW IF NOT EXISTS new_schedules AS
SELECT NULL AS id, NULL AS public_id, NULL AS kind, NULL AS owner, NULL AS name, NULL AS subject, NULL AS trigger,
  NULL AS payload, NULL AS policy, NULL AS depth, NULL AS version, NULL AS key, NULL AS fingerprint, NULL AS created,
  NULL AS updated, NULL AS author, NULL AS resume_at, NULL AS next, NULL AS lane, NULL AS at, NULL AS most, NULL AS bytes,
  NULL AS most_bytes, NULL AS counted_from, NULL AS counted_to, NULL AS bytes_counted_from

-- name: on_new_schedule
-- Nothing is written unless the id is new and every owner stays within its limits, as with `add_living_within`. During
-- the whole statement, sqlite_sequence is as it was before.
CREATE TEMP TRIGGER IF NOT EXISTS on_new_schedule INSTEAD OF INSERT ON new_schedules BEGIN
  SELECT RAISE(ABORT, 'known id') WHERE NEW.id <= (SELECT seq FROM sqlite_sequence WHERE name = 'schedules');
  UPDATE living_counts SET living = living + 1
  WHERE owner = NEW.owner
    AND (NEW.most IS NULL OR (living < NEW.most AND counted BETWEEN NEW.counted_from AND NEW.counted_to));
  SELECT RAISE(ABORT, 'limit') WHERE changes() = 0;
  UPDATE stored_bytes SET bytes = bytes + NEW.bytes
  WHERE NEW.bytes IS NOT NULL AND owner = NEW.owner AND bytes + NEW.bytes <= NEW.most_bytes
    AND counted >= NEW.bytes_counted_from;
  SELECT RAISE(ABORT, 'limit') WHERE NEW.bytes IS NOT NULL AND changes() = 0;
  INSERT INTO schedules (id, public_id, kind, owner, name, subject, trigger, payload, policy, depth, version, key,
    fingerprint, created, updated, author, resume_at)
  VALUES (NEW.id, NEW.public_id, NEW.kind, NEW.owner, NEW.name, NEW.subject, NEW.trigger, NEW.payload, NEW.policy,
    NEW.depth, NEW.version, NEW.key, NEW.fingerprint, NEW.created, NEW.updated, NEW.author,
    NEW.resume_at);
  INSERT INTO progress (schedule, owner, kind, next, state, run_count, active, queued, failures)
  VALUES (NEW.id, NEW.owner, NEW.kind, NEW.next, 'active', 0, 0, 0, 0);
  INSERT INTO due (lane, at, schedule, run, owner) VALUES (NEW.lane, NEW.at, NEW.id, 0, NEW.owner);
END

-- name: create_schedule
INSERT INTO new_schedules (id, public_id, kind, owner, name, subject, trigger, payload, policy, depth, version, key,
  fingerprint, created, updated, author, resume_at, next, lane, at, most, bytes, most_bytes, counted_from, counted_to,
  bytes_counted_from)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_schedule
UPDATE schedules SET name = ?, subject = ?, trigger = ?, payload = ?, policy = ?, key = ?, depth = ?, version = ?,
  updated = ?, author = ?, resume_at = ?, fingerprint = ?
WHERE id = ?

-- name: schedules_by_keys
SELECT s.*, p.* FROM json_each(?) given
CROSS JOIN schedules s ON s.owner = given.value ->> 0 AND s.key = given.value ->> 1
CROSS JOIN progress p ON p.schedule = s.id

-- name: insert_progress
-- Of a new schedule: nothing has run yet.
INSERT INTO progress (schedule, owner, kind, next, state, run_count, active, queued, failures)
VALUES (?, ?, ?, ?, 'active', 0, 0, 0, 0)

-- name: update_progress_state
UPDATE progress SET state = ? WHERE schedule = ?

-- name: update_progress
-- Without the state: SQLite rewrites an index entry whenever one of its columns is named, changed or not.
UPDATE progress SET next = ?, through = ?, run_count = ?, active = ?, queued = ?, gap = ?,
  last_status = ?, last_run = ?, last_error = ?, failures = ?, note = ?, untaken = ?
WHERE schedule = ?

-- name: start_progress
UPDATE progress SET next = ?, through = ?, run_count = run_count + 1, active = 1, gap = NULL, note = NULL,
  untaken = 0
WHERE schedule = ?

-- name: complete_run
UPDATE runs SET status = 'completed', started = ?, finished = ?, result = ?, error = NULL
WHERE id = ? AND fence = ? AND worker = ? AND status = 'running' AND stop = 0

-- name: complete_progress
UPDATE progress SET active = active - 1, last_status = 'completed', last_run = ?, last_error = NULL, failures = 0
WHERE schedule = ? AND queued = 0 AND followed = 0 AND (next IS NOT NULL OR state <> 'paused')

-- name: end_schedules
-- The state is written for those alone that end: see `update_progress`.
UPDATE progress SET state = 'ended', gap = NULL
WHERE schedule IN (SELECT value FROM json_each(?)) AND state = 'active' AND next IS NULL AND active = 0 AND queued = 0

-- name: insert_due
INSERT INTO due (lane, at, schedule, run, owner) VALUES (?, ?, ?, ?, ?)

-- name: delete_due
DELETE FROM due WHERE schedule = ? AND run = ?

-- name: delete_due_of
DELETE FROM due WHERE schedule = ?

-- name: earliest
SELECT d.lane, d.at, d.schedule, d.run, d.owner FROM json_each(?) given
CROSS JOIN due d ON (d.lane, d.at, d.schedule, d.run) = (
  SELECT lane, at, schedule, run FROM due WHERE lane = given.value AND at > ? ORDER BY at, schedule, run LIMIT 1
)

-- name: look_ahead
SELECT d.lane, d.at, d.schedule, d.run, d.owner, EXISTS (SELECT 1 FROM events WHERE reached IS NOT NULL)
FROM json_each(?) given LEFT JOIN due d ON (d.lane, d.at, d.schedule, d.run) = (
  SELECT lane, at, schedule, run FROM due WHERE lane = given.value ORDER BY at, schedule, run LIMIT 1
)

-- part: owners_in_lanes
-- From owner to owner: what one of them has waiting costs nothing.
WITH RECURSIVE owners (lane, owner) AS (
  SELECT value, (SELECT min(owner) FROM due WHERE lane = value) FROM json_each(?1)
  UNION ALL
  SELECT lane, (SELECT min(due.owner) FROM due WHERE due.lane = owners.lane AND due.owner > owners.owner)
  FROM owners WHERE owner IS NOT NULL
)

-- name: earliest_but
{owners_in_lanes}
SELECT d.lane, d.at, d.schedule, d.run, d.owner FROM owners o
CROSS JOIN due d ON (d.lane, d.at, d.schedule, d.run) = (
  SELECT lane, at, schedule, run FROM due WHERE lane = o.lane AND owner = o.owner AND at > ?2
  ORDER BY at, schedule, run LIMIT 1
)
WHERE o.owner IS NOT NULL AND (o.lane, o.owner) NOT IN (SELECT value ->> 0, value ->> 1 FROM json_each(?3))

-- name: unreachable
-- The first entry of each owner in some lanes, unless it was noted that it waits.
{owners_in_lanes}
SELECT o.lane, s.* FROM owners o CROSS JOIN schedules s ON s.id = (
  SELECT schedule FROM due WHERE lane = o.lane AND owner = o.owner AND at <= ?2 ORDER BY at, schedule, run LIMIT 1)
WHERE o.owner IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM incidents i
  WHERE i.schedule = s.id AND i.recovered IS NULL AND i.trouble = 'untaken' AND i.run IS NULL)
LIMIT ?3

-- name: usages
SELECT u.owner, u.runs FROM json_each(?) given CROSS JOIN usage u ON u.owner = given.value AND u.hour = ?

-- name: other_owners
SELECT EXISTS (
  SELECT 1 FROM json_each(?) given
  WHERE EXISTS (SELECT 1 FROM due WHERE lane = given.value AND owner < ?)
    OR EXISTS (SELECT 1 FROM due WHERE lane = given.value AND owner > ?))

-- name: due_heads
SELECT owner, at FROM due
WHERE lane = ? AND at <= ? AND (at <= ? OR NOT EXISTS (
  SELECT 1 FROM progress p WHERE p.schedule = due.schedule AND (p.active <> 0 OR p.queued <> 0)))
ORDER BY at LIMIT ?

-- name: due_owners
WITH RECURSIVE owners (owner) AS (
  SELECT min(owner) FROM due WHERE lane = ?1
  UNION ALL
  SELECT (SELECT min(due.owner) FROM due WHERE due.lane = ?1 AND due.owner > owners.owner)
  FROM owners WHERE owner IS NOT NULL
)
SELECT owner, first FROM (
  SELECT owner, (
    SELECT at FROM due WHERE due.lane = ?1 AND due.owner = owners.owner AND at <= ?2 AND (at <= ?3 OR NOT EXISTS (
      SELECT 1 FROM progress p WHERE p.schedule = due.schedule AND (p.active <> 0 OR p.queued <> 0)))
    ORDER BY at LIMIT 1
  ) AS first
  FROM owners WHERE owner IS NOT NULL
) WHERE first IS NOT NULL

-- name: due_entries
-- What is claimed ahead of its instant must not be up for a decision by then: see ClaimRequest.lead.
SELECT d.lane, d.at, d.schedule, d.run, d.owner, s.*, p.*
FROM due d JOIN schedules s ON s.id = d.schedule JOIN progress p ON p.schedule = d.schedule
WHERE d.lane = ? AND d.at <= ? AND (d.at <= ? OR (p.active = 0 AND p.queued = 0))
ORDER BY d.at, d.schedule, d.run LIMIT ?

-- name: due_keys_of
SELECT schedule, run FROM due
WHERE lane = ?1 AND owner = ?4 AND at <= ?2 AND (at <= ?3 OR NOT EXISTS (
  SELECT 1 FROM progress p WHERE p.schedule = due.schedule AND (p.active <> 0 OR p.queued <> 0)))
ORDER BY at, schedule, run LIMIT ?5 OFFSET ?6

-- name: due_entries_by_key
-- CROSS JOIN fixes the order: from the given keys outwards, whatever the statistics say.
SELECT d.lane, d.at, d.schedule, d.run, d.owner, s.*, p.*
FROM json_each(?) given CROSS JOIN due d ON d.schedule = given.value ->> 0 AND d.run = given.value ->> 1
CROSS JOIN schedules s ON s.id = d.schedule CROSS JOIN progress p ON p.schedule = d.schedule

-- name: insert_run
-- The unique key decides: an occurrence that has a row is left alone, and the claim is planned again without it.
INSERT INTO runs (id, schedule, cause, due, status, attempt, deaths, fence, worker, holder, started, finished, until,
  expires, result, error, report, stop, last, number, kind, owner, name)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (schedule, due, cause) DO NOTHING

-- name: delete_run
DELETE FROM runs WHERE id = ?

-- name: update_run
UPDATE runs SET status = ?, attempt = ?, deaths = ?, fence = ?, worker = ?, holder = ?, started = ?, finished = ?,
  until = ?, expires = ?, result = ?, error = ?, stop = ?
WHERE id = ?

-- name: extend_run
UPDATE runs SET last = ?, number = CASE WHEN number < 0 THEN number - ? ELSE number + ? END, finished = ? WHERE id = ?

-- name: report_run
UPDATE runs SET report = ? WHERE id = ? AND worker = ? AND status = 'running'

-- name: held_rows
-- CROSS JOIN fixes the order: from the given ids outwards, whatever the statistics say.
SELECT r.*, x.*, p.* FROM json_each(?) given CROSS JOIN runs r ON r.id = given.value
CROSS JOIN schedules s ON s.id = r.schedule CROSS JOIN progress p ON p.schedule = r.schedule

-- name: holdings
SELECT r.id, r.status, r.fence, r.worker, r.stop, p.* FROM json_each(?) given CROSS JOIN runs r ON r.id = given.value
CROSS JOIN progress p ON p.schedule = r.schedule

-- name: insert_attempt
-- Numbers go on after those that are stored: older code counted from one again after a retry by hand.
-- A retry by hand leaves the traceback to the attempt.
INSERT INTO attempts (run, number, started, finished, status, error, traceback, actor, retried)
VALUES (?1, max(?2, 1 + coalesce((SELECT max(number) FROM attempts WHERE run = ?1), 0)), ?3, ?4, ?5, ?6,
  coalesce(?7, (SELECT traceback FROM runs WHERE id = ?1)), ?8, ?9)

-- name: insert_worker
INSERT INTO workers (name, lanes, session, started, beat, seen, lease) VALUES (?, ?, ?, ?, 1, ?, ?) RETURNING id

-- name: worker_lives
-- Whether events wait comes along, which costs no statement of its own.
SELECT EXISTS (SELECT 1 FROM events WHERE reached IS NOT NULL) FROM workers WHERE id = ?

-- name: delete_dead_worker
DELETE FROM workers WHERE id = ? AND beat = ? RETURNING not_begun

-- name: spared_runs
SELECT r.id, r.spared FROM json_each(?) given CROSS JOIN runs r ON r.id = given.value WHERE r.spared > 0

-- name: prunable_runs
-- Among the oldest rows only, so that a look that finds nothing costs the same in any history. What stays for now is not
-- counted among them, or enough of it would keep all history for ever: runs that have not ended, and the open row of
-- skips, which further skips will extend.
SELECT id FROM (
  SELECT r.id, r.finished FROM runs r
  WHERE r.status NOT IN ('pending', 'queued', 'running', 'waiting')
    AND (r.status <> 'skipped' OR NOT EXISTS (SELECT 1 FROM progress p WHERE p.schedule = r.schedule AND p.gap = r.id))
  ORDER BY r.id LIMIT 5000
) WHERE finished < ? LIMIT ?

-- name: trimmable_runs
-- The oldest runs of an owner that have ended, as `prunable_runs`, until their bytes suffice.
SELECT id, bytes FROM (
  SELECT id, bytes, sum(bytes) OVER (ORDER BY id) - bytes AS earlier FROM (
    SELECT r.id, {bytes_of_run} AS bytes FROM runs r
    WHERE r.owner = ? AND r.finished < ? AND r.status NOT IN ('pending', 'queued', 'running', 'waiting')
      AND (r.status <> 'skipped' OR NOT EXISTS (SELECT 1 FROM progress p WHERE p.schedule = r.schedule AND p.gap = r.id))
    ORDER BY r.id LIMIT ?
  )
) WHERE earlier < ?

-- name: delete_attempts
DELETE FROM attempts WHERE run = ?

-- name: prune_schedules
-- What is over and has no history left. Its last run counts, since a schedule is not updated by running.
-- What a file or a task declares stays until it is deleted, or it would be created again; unless its task is gone, which
-- is why it was cancelled. It is not counted among the oldest, as in `prunable_runs`.
DELETE FROM schedules WHERE id IN (
  SELECT p.schedule FROM (
    SELECT schedule, last_run FROM progress
    WHERE (state = 'ended' OR state = 'cancelled' OR state = 'deleted') AND (
      SELECT substr(s.key, 1, 13) NOT IN ('duetime-file:', 'duetime:task:') OR s.fingerprint = 'retired'
      FROM schedules s WHERE s.id = progress.schedule
    ) ORDER BY schedule LIMIT 5000
  ) p JOIN schedules s ON s.id = p.schedule
  WHERE max(s.updated, coalesce(p.last_run, 0)) < ?
    AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.schedule = p.schedule) LIMIT ?
) RETURNING id

-- name: delete_progress
DELETE FROM progress WHERE schedule = ?

-- name: listeners_by_id
SELECT s.*, p.* FROM json_each(?) given CROSS JOIN schedules s ON s.id = given.value
CROSS JOIN progress p ON p.schedule = s.id

-- name: lock_hook
-- One transaction writes at a time.
SELECT id, owner, name, scheme, secret, created, used, deliveries FROM hooks WHERE id = ?

-- name: listeners
SELECT s.id, s.trigger, s.created FROM schedules s INDEXED BY schedules_listening
WHERE s.owner = ? AND json_extract(s.trigger, '$.event') IN (SELECT value FROM json_each(?))
  AND instr(s.trigger, '"type":"event"') > 0 AND substr(s.key, 1, 6) <> '~gone-' AND s.id > ? ORDER BY s.id LIMIT ?

-- name: waiting_schedules
-- A gate may still skip the last run that max_runs allows.
SELECT s.*, p.* FROM schedules s INDEXED BY schedules_listening JOIN progress p ON p.schedule = s.id
WHERE s.owner = ? AND json_extract(s.trigger, '$.event') IN (SELECT value FROM json_each(?))
  AND instr(s.trigger, '"type":"event"') > 0
  AND substr(s.key, 1, 6) <> '~gone-' AND p.state <> 'cancelled'
  AND (p.next IS NOT NULL OR (instr(s.policy, '"only_if"') > 0 AND EXISTS (
    SELECT 1 FROM runs r WHERE r.schedule = s.id AND r.gate IS NULL AND r.status <> 'waiting'
      AND (r.status = 'running' OR r.status = 'pending' OR r.status = 'queued' OR r.status = 'waiting'))))
ORDER BY s.id LIMIT ?

-- name: runs_of_event
SELECT r.* FROM schedules s JOIN runs r ON r.schedule = s.id AND r.due = ? AND r.cause = ?
WHERE s.owner = ? AND json_extract(s.trigger, '$.event') IN (SELECT value FROM json_each(?))
  AND instr(s.trigger, '"type":"event"') > 0 AND substr(s.key, 1, 6) <> '~gone-' LIMIT ?

-- name: lock_expansion
-- One transaction writes at a time.
SELECT 1

-- name: delete_oldest_events
-- Except those of runs that have not ended. Among the oldest only, so that a look that finds nothing costs little.
DELETE FROM events WHERE id IN (
  SELECT e.id FROM events e JOIN (SELECT id FROM events WHERE owner = ? ORDER BY id LIMIT 10000) AS oldest ON oldest.id = e.id
  WHERE e.reached IS NULL AND e.id NOT IN ({needed_events}) ORDER BY e.id LIMIT ?
) RETURNING octet_length(data)

-- name: delete_old_events
DELETE FROM events WHERE id IN (
  SELECT e.id FROM events e JOIN (SELECT id FROM events WHERE reached IS NULL ORDER BY id LIMIT 5000) AS oldest ON oldest.id = e.id
  WHERE e.at < ? AND e.id NOT IN ({needed_events}) ORDER BY e.id LIMIT ?
) RETURNING owner
