-- `?` stands for a parameter. Batches come as arrays, one per column: one round trip for all.
-- What every create and every run sends reads its arrays in a list of columns. In FROM the server would first store what
-- each of them holds, which took a quarter of its time for one create, an eighth for many, and 2 to 18 percent elsewhere.

-- name: new_schedule_ids
SELECT nextval('schedule_ids') FROM generate_series(1, ?)

-- name: new_run_ids
SELECT nextval('run_ids') FROM generate_series(1, ?)

-- name: lock_owner
-- Held until the end of the transaction; two owners with one hash only wait for each other.
SELECT pg_advisory_xact_lock(71001, hashtext(?))

-- name: lock_alerts
-- One transaction at a time decides what owners are told. It waits for no other lock that waits for it.
SELECT pg_advisory_xact_lock(71002, 0)

-- name: insert_schedules
INSERT INTO schedules (id, public_id, kind, owner, name, subject, trigger, payload, policy, depth, version, key,
  fingerprint, created, updated, author, resume_at)
SELECT unnest(?::bigint[]), unnest(?::text[]), unnest(?::text[]), unnest(?::text[]), unnest(?::text[]),
  unnest(?::text[]), unnest(?::text[]), unnest(?::text[]), unnest(?::text[]), unnest(?::integer[]), unnest(?::bigint[]),
  unnest(?::text[]), unnest(?::text[]), unnest(?::bigint[]), unnest(?::bigint[]), unnest(?::text[]), unnest(?::bigint[])

-- name: insert_progress
-- Of a new schedule: nothing has run yet.
INSERT INTO progress (schedule, owner, kind, next, state, run_count, active, queued, failures)
SELECT unnest(?::bigint[]), unnest(?::text[]), unnest(?::text[]), unnest(?::bigint[]), 'active', 0, 0, 0, 0

-- name: insert_due
INSERT INTO due (lane, at, schedule, run, owner)
SELECT unnest(?::text[]), unnest(?::bigint[]), unnest(?::bigint[]), unnest(?::bigint[]), unnest(?::text[])

-- name: create_few
-- A whole create in one statement and so in one commit. Nothing is inserted unless every owner stays within its limits.
-- Otherwise the first totals may have grown: they are bounds, and what refuses a create counts again.
-- Rows are inserted after the counters were updated: whoever creates for one owner at once waits there, and only there.
WITH counted AS (
  UPDATE living_counts c SET living = c.living + u.number
  FROM unnest(?::text[], ?::bigint[], ?::bigint[]) AS u (owner, number, most)
  WHERE c.owner = u.owner AND (u.most IS NULL OR (c.living + u.number <= u.most AND c.counted BETWEEN ? AND ?))
  RETURNING 1
), stored AS (
  UPDATE stored_bytes b SET bytes = b.bytes + u.number
  FROM unnest(?::text[], ?::bigint[], ?::bigint[]) AS u (owner, number, most)
  WHERE b.owner = u.owner AND b.bytes + u.number <= u.most AND b.counted >= ?
    AND (SELECT count(*) FROM counted) = ?
  RETURNING 1
), n AS MATERIALIZED (
  SELECT coalesce(u.given, nextval('schedule_ids')) AS id, u.*
  FROM (
    SELECT unnest(?::bigint[]) AS given, unnest(?::text[]) AS public_id, unnest(?::text[]) AS kind,
      unnest(?::text[]) AS owner, unnest(?::text[]) AS name, unnest(?::text[]) AS subject, unnest(?::text[]) AS trigger,
      unnest(?::text[]) AS payload, unnest(?::text[]) AS policy, unnest(?::integer[]) AS depth,
      unnest(?::bigint[]) AS version, unnest(?::text[]) AS key, unnest(?::text[]) AS fingerprint,
      unnest(?::bigint[]) AS created, unnest(?::bigint[]) AS updated, unnest(?::text[]) AS author,
      unnest(?::bigint[]) AS first, unnest(?::text[]) AS lane, unnest(?::bigint[]) AS at, generate_series(1, ?) AS place
  ) AS u
  WHERE (SELECT count(*) FROM counted) = ? AND (SELECT count(*) FROM stored) = ?
), made AS (
  INSERT INTO schedules (id, public_id, kind, owner, name, subject, trigger, payload, policy, depth, version, key,
    fingerprint, created, updated, author)
  SELECT id, replace(public_id, '{id}', id::text), kind, owner, name, subject, trigger, payload, policy, depth,
    version, key, fingerprint, created, updated, author FROM n
), begun AS (
  INSERT INTO progress (schedule, owner, kind, state, next, run_count, active, queued, failures)
  SELECT id, owner, kind, 'active', first, 0, 0, 0, 0 FROM n
), queued AS (
  INSERT INTO due (lane, at, schedule, run, owner) SELECT lane, at, id, 0, owner FROM n
)
SELECT id, CASE WHEN ? AND place = 1 THEN pg_notify('duetime', '') END FROM n ORDER BY place

-- name: update_schedules
UPDATE schedules s SET name = u.name, subject = u.subject, trigger = u.trigger, payload = u.payload,
  policy = u.policy, key = u.key, depth = u.depth, version = u.version, updated = u.updated,
  author = u.author, resume_at = u.resume_at, fingerprint = u.fingerprint
FROM unnest(
  ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::integer[], ?::bigint[], ?::bigint[], ?::text[],
  ?::bigint[], ?::text[], ?::bigint[]
) AS u (name, subject, trigger, payload, policy, key, depth, version, updated, author, resume_at, fingerprint, id)
WHERE s.id = u.id

-- name: schedules_by_keys
SELECT s.*, p.*
FROM unnest(?::text[], ?::text[]) AS k (owner, key)
  JOIN schedules s ON s.owner = k.owner AND s.key = k.key JOIN progress p ON p.schedule = s.id

-- name: lock_progress
-- Nothing but the lock: what it protects is read by the next statement, whose snapshot is taken after the wait.
SELECT 1 FROM progress WHERE schedule = ? FOR UPDATE

-- name: lock_progress_of_runs
-- In the order of schedules, as everywhere: two batches then wait for each other and never in a circle.
SELECT p.* FROM progress p WHERE p.schedule = ANY (ARRAY(SELECT r.schedule FROM runs r WHERE r.id = ANY (?::bigint[])))
ORDER BY p.schedule FOR UPDATE

-- name: lock_progress_of_worker
SELECT p.* FROM progress p
WHERE p.schedule = ANY (ARRAY(
  SELECT r.schedule FROM runs r
  WHERE r.worker = ? AND r.status = 'running' AND r.status IN ('pending', 'queued', 'running', 'waiting')))
ORDER BY p.schedule FOR UPDATE

-- name: update_progress
UPDATE progress p SET state = u.state, next = u.next, through = u.through, run_count = u.run_count,
  active = u.active, queued = u.queued, gap = u.gap, last_status = u.last_status, last_run = u.last_run,
  last_error = u.last_error, failures = u.failures, note = u.note, untaken = u.untaken
FROM (
  SELECT unnest(?::bigint[]) AS schedule, unnest(?::text[]) AS state, unnest(?::bigint[]) AS next,
    unnest(?::bigint[]) AS through, unnest(?::bigint[]) AS run_count, unnest(?::bigint[]) AS active,
    unnest(?::bigint[]) AS queued, unnest(?::bigint[]) AS gap, unnest(?::text[]) AS last_status,
    unnest(?::bigint[]) AS last_run, unnest(?::text[]) AS last_error, unnest(?::bigint[]) AS failures,
    unnest(?::text[]) AS note, unnest(?::bigint[]) AS untaken
) AS u
WHERE p.schedule = u.schedule

-- name: start_progress
-- `state` is set to what it is because `failing` is generated from it: in an update of none of the columns that a
-- generated one depends on, PostgreSQL 18 parses its expression again for every row, which costs three times as much.
UPDATE progress p SET state = p.state, next = u.next, through = u.through, run_count = p.run_count + 1, active = 1,
  gap = NULL, note = NULL, untaken = 0
FROM (
  SELECT unnest(?::bigint[]) AS next, unnest(?::bigint[]) AS through, unnest(?::bigint[]) AS schedule
) AS u
WHERE p.schedule = u.schedule

-- name: lock_schedules
-- In the order of schedules, as everywhere.
SELECT count(*) FROM (
  SELECT 1 FROM progress p WHERE p.schedule = ANY (?::bigint[]) ORDER BY p.schedule FOR UPDATE) AS locked

-- name: complete_runs
-- It divides by zero unless it wrote as many rows as it was asked to, so that the commit can follow unseen.
-- By their ids: without `|| ''`, the planner would compare each of them with all running ones.
WITH completed AS (
  UPDATE runs r SET status = 'completed', started = u.started, finished = u.finished, result = u.result, error = NULL
  FROM unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::text[]) AS u (id, fence, started, finished, result)
  WHERE r.id = u.id AND r.fence = u.fence AND r.worker = ? AND r.status || '' = 'running' AND r.stop = 0 RETURNING 1
) SELECT 1 / (count(*) = ?)::integer FROM completed

-- name: complete_progress
WITH counted AS (
  UPDATE progress p SET active = p.active - 1, last_status = 'completed', last_run = u.started, last_error = NULL,
    failures = 0,
    state = CASE WHEN p.state = 'active' AND p.next IS NULL AND p.active = 1 THEN 'ended' ELSE p.state END,
    gap = CASE WHEN p.state = 'active' AND p.next IS NULL AND p.active = 1 THEN NULL ELSE p.gap END
  FROM (SELECT unnest(?::bigint[]) AS schedule, unnest(?::bigint[]) AS started) AS u
  WHERE p.schedule = u.schedule AND p.queued = 0 AND p.followed = 0 AND (p.next IS NOT NULL OR p.state <> 'paused') RETURNING 1
) SELECT 1 / (count(*) = ?)::integer FROM counted

-- name: delete_due
DELETE FROM due d USING (SELECT unnest(?::bigint[]) AS schedule, unnest(?::bigint[]) AS run) AS u
WHERE d.schedule = u.schedule AND d.run = u.run

-- name: delete_due_of
DELETE FROM due WHERE schedule = ANY (?::bigint[])

-- name: earliest
SELECT d.* FROM unnest(?::text[]) AS given (lane) CROSS JOIN LATERAL (
  SELECT e.lane, e.at, e.schedule, e.run, e.owner
  FROM due e WHERE e.lane = given.lane AND e.at > ? ORDER BY e.at, e.schedule, e.run LIMIT 1
) d

-- name: look_ahead
SELECT d.*, EXISTS (SELECT 1 FROM events WHERE reached IS NOT NULL)
FROM unnest(?::text[]) AS given (lane) LEFT JOIN LATERAL (
  SELECT e.lane, e.at, e.schedule, e.run, e.owner
  FROM due e WHERE e.lane = given.lane ORDER BY e.at, e.schedule, e.run LIMIT 1
) d ON true

-- part: owners_in_lanes
-- From owner to owner: what one of them has waiting costs nothing.
WITH RECURSIVE owners (lane, owner) AS (
  SELECT given.lane, (SELECT min(e.owner) FROM due e WHERE e.lane = given.lane) FROM unnest(?::text[]) AS given (lane)
  UNION ALL
  SELECT o.lane, (SELECT min(e.owner) FROM due e WHERE e.lane = o.lane AND e.owner > o.owner)
  FROM owners o WHERE o.owner IS NOT NULL
)

-- name: earliest_but
{owners_in_lanes}
SELECT d.* FROM owners o CROSS JOIN LATERAL (
  SELECT e.lane, e.at, e.schedule, e.run, e.owner
  FROM due e WHERE e.lane = o.lane AND e.owner = o.owner AND e.at > ? ORDER BY e.at, e.schedule, e.run LIMIT 1
) d
WHERE o.owner IS NOT NULL AND (o.lane, o.owner) NOT IN (
  SELECT t.value ->> 0, t.value ->> 1 FROM jsonb_array_elements(?::jsonb) AS t (value))

-- name: unreachable
-- The first entry of each owner in some lanes, unless it was noted that it waits.
{owners_in_lanes}
SELECT o.lane, s.* FROM owners o CROSS JOIN LATERAL (
  SELECT e.schedule FROM due e
  WHERE e.lane = o.lane AND e.owner = o.owner AND e.at <= ? ORDER BY e.at, e.schedule, e.run LIMIT 1
) d JOIN schedules s ON s.id = d.schedule
WHERE o.owner IS NOT NULL AND (
  SELECT 1 FROM incidents i
  WHERE i.schedule = d.schedule AND i.recovered IS NULL AND i.trouble = 'untaken' AND i.run IS NULL LIMIT 1) IS NULL
LIMIT ?

-- name: usages
SELECT owner, runs FROM usage WHERE owner = ANY (?::text[]) AND hour = ?

-- name: other_owners
-- Not by EXISTS with `owner <`: a plan for any owner expects a third of the rows to match and may read them all.
SELECT EXISTS (
  SELECT 1 FROM unnest(?::text[]) AS given (lane)
  WHERE (SELECT min(e.owner) FROM due e WHERE e.lane = given.lane) < ?
    OR (SELECT max(e.owner) FROM due e WHERE e.lane = given.lane) > ?)

-- name: due_lanes
-- One question instead of one per lane: most lanes are empty most of the time.
SELECT given.lane FROM unnest(?::text[], ?::bigint[]) AS given (lane, until)
WHERE EXISTS (SELECT 1 FROM due e WHERE e.lane = given.lane AND e.at <= given.until)

-- name: due_owners
-- The same, and whose they are. The owners of the first few entries,
-- where those are all; only where there are more is it asked from owner to owner. The progress of an entry is read by
-- a scalar subquery: for NOT EXISTS, the planner may hash the whole table.
SELECT given.lane, found.owner, found.first
FROM unnest(?::text[], ?::bigint[], ?::bigint[]) AS given (lane, until, now)
CROSS JOIN (SELECT ?::bigint AS few) AS most CROSS JOIN LATERAL (
  WITH RECURSIVE heads AS MATERIALIZED (
    SELECT e.owner, e.at FROM due e
    WHERE e.lane = given.lane AND e.at <= given.until AND (e.at <= given.now OR (
      SELECT p.active = 0 AND p.queued = 0 FROM progress p WHERE p.schedule = e.schedule))
    ORDER BY e.at LIMIT most.few
  ), owners (owner) AS (
    SELECT (SELECT min(e.owner) FROM due e WHERE e.lane = given.lane)
    WHERE (SELECT count(*) FROM heads) >= most.few
    UNION ALL
    SELECT (SELECT min(e.owner) FROM due e WHERE e.lane = given.lane AND e.owner > o.owner)
    FROM owners o WHERE o.owner IS NOT NULL
  )
  SELECT h.owner, min(h.at) AS first FROM heads h WHERE (SELECT count(*) FROM heads) < most.few GROUP BY h.owner
  UNION ALL
  SELECT o.owner, (
    SELECT e.at FROM due e
    WHERE e.lane = given.lane AND e.owner = o.owner AND e.at <= given.until AND (e.at <= given.now OR (
      SELECT p.active = 0 AND p.queued = 0 FROM progress p WHERE p.schedule = e.schedule))
    ORDER BY e.at LIMIT 1)
  FROM owners o WHERE o.owner IS NOT NULL
) found
WHERE found.first <= given.until

-- name: due_entries
-- Whatever somebody else has locked is passed over. The progress is locked before the entry, as everywhere: an entry
-- that stayed locked although its progress was passed over could make two workers wait for each other.
-- A trigger's own entry brings the id for its run along, so that ids follow the order in which runs were claimed, whoever
-- claimed them. What is claimed ahead of its instant must not be up for a decision by then: see ClaimRequest.lead.
SELECT d.lane, d.at, d.schedule, d.run, d.owner, CASE WHEN d.run = 0 THEN nextval('run_ids') END, s.*, p.*
FROM due d JOIN progress p ON p.schedule = d.schedule JOIN schedules s ON s.id = d.schedule
WHERE d.lane = ? AND (d.at, d.schedule) > (?, ?) AND d.at <= ? AND (d.at <= ? OR (p.active = 0 AND p.queued = 0))
ORDER BY d.at, d.schedule, d.run LIMIT ?
FOR UPDATE OF p, d SKIP LOCKED

-- name: due_entries_of
-- A part of each owner's entries; those before the offset were taken by this transaction already.
SELECT e.* FROM unnest(?::text[], ?::bigint[], ?::bigint[]) AS given (owner, number, past) CROSS JOIN LATERAL (
  SELECT d.lane, d.at, d.schedule, d.run, d.owner, CASE WHEN d.run = 0 THEN nextval('run_ids') END, s.*, p.*
  FROM due d JOIN progress p ON p.schedule = d.schedule JOIN schedules s ON s.id = d.schedule
  WHERE d.lane = ? AND d.owner = given.owner AND d.at <= ? AND (d.at <= ? OR (p.active = 0 AND p.queued = 0))
  ORDER BY d.at, d.schedule, d.run LIMIT given.number OFFSET given.past
  FOR UPDATE OF p, d SKIP LOCKED
) e

-- name: runs_by_ids
SELECT r.*, r.payload, r.actor FROM runs r WHERE r.id = ANY (?::bigint[])

-- name: insert_runs
-- The unique key decides: an occurrence that has a row is left alone, and the claim is planned again without it.
WITH made AS (
  INSERT INTO runs (id, schedule, cause, due, status, attempt, deaths, fence, worker, holder, started, finished, until,
    expires, result, error, report, stop, last, number, kind, owner, name)
  SELECT unnest(?::bigint[]), unnest(?::bigint[]), unnest(?::text[]), unnest(?::bigint[]), unnest(?::text[]),
    unnest(?::integer[]), unnest(?::integer[]), unnest(?::bigint[]), unnest(?::bigint[]), unnest(?::text[]),
    unnest(?::bigint[]), unnest(?::bigint[]), unnest(?::bigint[]), unnest(?::bigint[]), unnest(?::text[]),
    unnest(?::text[]), unnest(?::text[]), unnest(?::integer[]), unnest(?::bigint[]), unnest(?::bigint[]),
    unnest(?::text[]), unnest(?::text[]), unnest(?::text[])
  ON CONFLICT (schedule, due, cause) DO NOTHING RETURNING 1
) SELECT count(*) FROM made

-- part: insert_started_runs
-- Runs that start with their claim: as `claimed_run` makes them.
INSERT INTO runs (id, schedule, cause, due, status, attempt, deaths, fence, worker, started, stop, number, kind, owner,
  name)
SELECT u.id, u.schedule, 'trigger', u.due, 'running', 1, 0, 1, u.worker, u.started, 0, 1, u.kind, u.owner, u.name
FROM (
  SELECT unnest(?::bigint[]) AS id, unnest(?::bigint[]) AS schedule, unnest(?::bigint[]) AS due,
    unnest(?::bigint[]) AS worker, unnest(?::bigint[]) AS started, unnest(?::text[]) AS kind,
    unnest(?::text[]) AS owner, unnest(?::text[]) AS name
) AS u

-- name: insert_claimed_runs
WITH made AS (
  {insert_started_runs}
  ON CONFLICT (schedule, due, cause) DO NOTHING RETURNING 1
) SELECT count(*) FROM made

-- name: insert_plain_runs
-- The same where a conflict is an error, which undoes the whole transaction: the commit can follow unseen.
{insert_started_runs}

-- name: present_runs
SELECT id FROM runs WHERE id = ANY (?::bigint[])

-- name: delete_runs
DELETE FROM runs WHERE id = ANY (?::bigint[])

-- name: update_runs
UPDATE runs r SET status = u.status, attempt = u.attempt, deaths = u.deaths, fence = u.fence, worker = u.worker,
  holder = u.holder, started = u.started, finished = u.finished, until = u.until, expires = u.expires,
  result = u.result, error = u.error, stop = u.stop
FROM (
  SELECT unnest(?::text[]) AS status, unnest(?::integer[]) AS attempt, unnest(?::integer[]) AS deaths,
    unnest(?::bigint[]) AS fence, unnest(?::bigint[]) AS worker, unnest(?::text[]) AS holder,
    unnest(?::bigint[]) AS started, unnest(?::bigint[]) AS finished, unnest(?::bigint[]) AS until,
    unnest(?::bigint[]) AS expires, unnest(?::text[]) AS result, unnest(?::text[]) AS error,
    unnest(?::integer[]) AS stop, unnest(?::bigint[]) AS id
) AS u
WHERE r.id = u.id

-- name: extend_runs
-- Summed up first: an UPDATE changes a row once, however many rows of its source match.
UPDATE runs r SET last = u.last, number = CASE WHEN r.number < 0 THEN r.number - u.added ELSE r.number + u.added END,
  finished = ?
FROM (SELECT run, max(last) AS last, sum(added)::bigint AS added
  FROM unnest(?::bigint[], ?::bigint[], ?::bigint[]) AS e (run, last, added) GROUP BY run) AS u
WHERE r.id = u.run

-- name: report_runs
-- A report is worth no waiting: a run that is just being recorded is passed over.
UPDATE runs r SET report = u.report
FROM unnest(?::bigint[], ?::text[]) AS u (id, report)
WHERE r.id = u.id AND r.id = ANY (ARRAY(
  SELECT l.id FROM runs l WHERE l.id = ANY (?::bigint[]) AND l.worker = ? AND l.status = 'running'
  FOR NO KEY UPDATE SKIP LOCKED))

-- name: holdings
SELECT r.schedule, r.id, r.status, r.fence, r.worker, r.stop FROM runs r WHERE r.id = ANY (?::bigint[])

-- name: held_rows
SELECT r.*, x.* FROM runs r JOIN schedules s ON s.id = r.schedule WHERE r.id = ANY (?::bigint[])

-- name: held_rows_of_worker
SELECT r.*, x.* FROM runs r JOIN schedules s ON s.id = r.schedule
WHERE r.worker = ? AND r.status = 'running' AND r.status IN ('pending', 'queued', 'running', 'waiting')
ORDER BY r.schedule, r.id

-- name: insert_attempts
-- Numbers go on after those that are stored: older code counted from one again after a retry by hand.
-- A retry by hand leaves the traceback to the attempt.
INSERT INTO attempts (run, number, started, finished, status, error, traceback, actor, retried)
SELECT u.run, greatest(u.number, 1 + coalesce((SELECT max(a.number) FROM attempts a WHERE a.run = u.run), 0)),
  u.started, u.finished, u.status, u.error,
  coalesce(u.traceback, (SELECT r.traceback FROM runs r WHERE r.id = u.run)), u.actor, u.retried
FROM unnest(?::bigint[], ?::integer[], ?::bigint[], ?::bigint[], ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint[])
  AS u (run, number, started, finished, status, error, traceback, actor, retried)

-- name: insert_worker
INSERT INTO workers (id, name, lanes, session, started, beat, seen, lease)
VALUES (nextval('worker_ids'), ?, ?, ?, ?, 1, ?, ?)
RETURNING id

-- name: lock_worker
-- Shared with this worker's beats and other exchanges; whoever wants to delete the row has to wait.
-- The server's clock comes along: no claim of the transaction goes beyond it, whatever the worker's clock shows. So does
-- whether events wait.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, EXISTS (SELECT 1 FROM events WHERE reached IS NOT NULL)
FROM workers WHERE id = ? FOR KEY SHARE

-- name: delete_dead_worker
-- A process that was stopped in mid-transaction still locks its row: whoever waited for it would miss his own beats.
DELETE FROM workers WHERE id = (SELECT id FROM workers WHERE id = ? AND beat = ? FOR UPDATE SKIP LOCKED)
RETURNING not_begun

-- name: spared_runs
SELECT r.id, r.spared FROM runs r WHERE r.id = ANY (?::bigint[]) AND r.spared > 0

-- name: schema_version
SELECT value FROM meta WHERE key = 'schema'

-- name: set_schema_version
INSERT INTO meta (key, value) VALUES ('schema', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: prune_runs
-- The progress row is locked as by everybody who changes a run: one that is just being retried stays.
-- The open row of skips stays too, because further skips will extend it.
-- Among the oldest rows only, so that a look that finds nothing costs the same in any history. What stays for now is not
-- counted among them, or enough of it would keep all history for ever.
WITH oldest AS (
  SELECT r.id FROM runs r WHERE r.status NOT IN ('pending', 'queued', 'running', 'waiting') AND (
    r.status <> 'skipped' OR (SELECT p.gap FROM progress p WHERE p.schedule = r.schedule) IS DISTINCT FROM r.id
  ) ORDER BY r.id LIMIT 5000
), old AS (
  SELECT r.id FROM oldest JOIN runs r ON r.id = oldest.id JOIN progress p ON p.schedule = r.schedule
  WHERE r.finished < ? AND r.status NOT IN ('pending', 'queued', 'running', 'waiting')
    AND p.gap IS DISTINCT FROM r.id
  ORDER BY r.id LIMIT ? FOR UPDATE OF p, r SKIP LOCKED
), noted AS (DELETE FROM attempts WHERE run IN (SELECT id FROM old)
), gone AS (DELETE FROM runs WHERE id IN (SELECT id FROM old) RETURNING 1
) SELECT count(*) FROM gone

-- name: trim_runs
-- The oldest runs of an owner that have ended, as `prune_runs`, until their bytes suffice.
WITH oldest AS (
  SELECT r.id, {bytes_of_run} AS bytes FROM runs r
  WHERE r.owner = ? AND r.finished < ? AND r.status NOT IN ('pending', 'queued', 'running', 'waiting') AND (
    r.status <> 'skipped' OR (SELECT p.gap FROM progress p WHERE p.schedule = r.schedule) IS DISTINCT FROM r.id
  ) ORDER BY r.id LIMIT ?
), enough AS (
  SELECT id, bytes, sum(bytes) OVER (ORDER BY id) - bytes AS earlier FROM oldest
), old AS (
  SELECT r.id, enough.bytes FROM enough JOIN runs r ON r.id = enough.id JOIN progress p ON p.schedule = r.schedule
  WHERE enough.earlier < ? AND r.status NOT IN ('pending', 'queued', 'running', 'waiting')
    AND p.gap IS DISTINCT FROM r.id
  FOR UPDATE OF p, r SKIP LOCKED
), noted AS (DELETE FROM attempts WHERE run IN (SELECT id FROM old)
), gone AS (DELETE FROM runs WHERE id IN (SELECT id FROM old)
) SELECT count(*), coalesce(sum(bytes), 0) FROM old

-- name: prune_schedules
-- What is over and has no history left. Its last run counts, since a schedule is not updated by running.
-- What a file or a task declares stays until it is deleted, or it would be created again; unless its task is gone, which
-- is why it was cancelled. It is not counted among the oldest, as in `prune_runs`.
-- The state is checked as an expression: by the partial index of states, each of the oldest would be compared with all.
WITH oldest AS (
  SELECT schedule FROM progress WHERE state IN ('deleted', 'ended', 'cancelled') AND (
    SELECT substr(s.key, 1, 13) NOT IN ('duetime-file:', 'duetime:task:') OR s.fingerprint = 'retired'
    FROM schedules s WHERE s.id = progress.schedule
  ) ORDER BY schedule LIMIT 5000
), old AS (
  SELECT p.schedule FROM oldest JOIN progress p ON p.schedule = oldest.schedule
  JOIN schedules s ON s.id = p.schedule
  WHERE p.state || '' IN ('deleted', 'ended', 'cancelled') AND greatest(s.updated, coalesce(p.last_run, 0)) < ?
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.schedule = p.schedule)
  LIMIT ? FOR UPDATE OF p SKIP LOCKED
), progressed AS (DELETE FROM progress WHERE schedule IN (SELECT schedule FROM old)
), forgotten AS (DELETE FROM memories WHERE schedule IN (SELECT schedule FROM old)
), gone AS (DELETE FROM schedules WHERE id IN (SELECT schedule FROM old) RETURNING 1
) SELECT count(*) FROM gone

-- name: notify
-- Delivered with the commit; equal ones of one transaction are delivered once.
SELECT pg_notify('duetime', '')

-- name: now
-- The server's clock, which a worker follows. Only this and `lock_worker` ask the database for the time.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: lock_expansion
-- One transaction at a time turns events into runs, so that every schedule gets them in their order. Nobody waits for it.
SELECT pg_try_advisory_xact_lock(71003, 0)

-- name: listeners_by_id
SELECT s.*, p.* FROM schedules s JOIN progress p ON p.schedule = s.id WHERE s.id = ANY (?::bigint[])

-- name: lock_hook
-- Two changes of a hook wait for each other.
SELECT id, owner, name, scheme, secret, created, used, deliveries FROM hooks WHERE id = ? FOR UPDATE

-- name: listeners
-- In the order of a sum: otherwise it reads all schedules of the owner in their order.
SELECT s.id, s.trigger, s.created FROM schedules s
WHERE s.owner = ? AND (s.trigger::jsonb ->> 'event') = ANY (ARRAY(SELECT jsonb_array_elements_text(?::jsonb)))
  AND position('"type":"event"' in s.trigger) > 0 AND substr(s.key, 1, 6) <> '~gone-' AND s.id > ?
ORDER BY s.id + 0 LIMIT ?

-- name: waiting_schedules
-- A gate may still skip the last run that max_runs allows.
SELECT s.*, p.* FROM schedules s JOIN progress p ON p.schedule = s.id
WHERE s.owner = ? AND (s.trigger::jsonb ->> 'event') = ANY (ARRAY(SELECT jsonb_array_elements_text(?::jsonb)))
  AND position('"type":"event"' in s.trigger) > 0
  AND substr(s.key, 1, 6) <> '~gone-' AND p.state <> 'cancelled'
  AND (p.next IS NOT NULL OR (position('"only_if"' in s.policy) > 0 AND EXISTS (
    SELECT 1 FROM runs r WHERE r.schedule = s.id AND r.gate IS NULL AND r.status <> 'waiting'
      AND (r.status = 'running' OR r.status = 'pending' OR r.status = 'queued' OR r.status = 'waiting'))))
ORDER BY s.id + 0 LIMIT ?

-- name: runs_of_event
SELECT r.* FROM schedules s JOIN runs r ON r.schedule = s.id AND r.due = ? AND r.cause = ?
WHERE s.owner = ? AND (s.trigger::jsonb ->> 'event') = ANY (ARRAY(SELECT jsonb_array_elements_text(?::jsonb)))
  AND position('"type":"event"' in s.trigger) > 0 AND substr(s.key, 1, 6) <> '~gone-' LIMIT ?

-- name: delete_oldest_events
-- Except those of runs that have not ended. Among the oldest only, so that a look that finds nothing costs little.
-- Nobody waits for rows that another process deletes. As an array, because a subquery can be evaluated several times.
DELETE FROM events WHERE id = ANY (ARRAY(
  SELECT e.id FROM events e JOIN (SELECT id FROM events WHERE owner = ? ORDER BY id LIMIT 10000) AS oldest ON oldest.id = e.id
  WHERE e.reached IS NULL AND e.id NOT IN ({needed_events}) ORDER BY e.id LIMIT ? FOR UPDATE OF e SKIP LOCKED
)) RETURNING octet_length(data)

-- name: delete_old_events
-- Nobody waits for rows that another process deletes.
DELETE FROM events WHERE id = ANY (ARRAY(
  SELECT e.id FROM events e JOIN (SELECT id FROM events WHERE reached IS NULL ORDER BY id LIMIT 5000) AS oldest ON oldest.id = e.id
  WHERE e.at < ? AND e.id NOT IN ({needed_events}) ORDER BY e.id LIMIT ? FOR UPDATE OF e SKIP LOCKED
)) RETURNING owner
