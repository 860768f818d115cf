-- What reads the same in every dialect. `?` stands for a parameter, and `{name}` for a part or for an earlier query.

-- name: schedule_by_key
SELECT s.*, p.* FROM schedules s JOIN progress p ON p.schedule = s.id WHERE s.owner = ? AND s.key = ?

-- name: schedules_by_key_prefix
SELECT s.*, p.* FROM schedules s JOIN progress p ON p.schedule = s.id
WHERE s.owner = ? AND s.key >= ? AND s.key < ? ORDER BY s.key

-- name: schedule_by_id
SELECT s.*, p.* FROM schedules s JOIN progress p ON p.schedule = s.id WHERE s.id = ?

-- name: schedule_by_public_id
SELECT s.*, p.* FROM schedules s JOIN progress p ON p.schedule = s.id WHERE s.public_id = ?

-- name: living_marks
SELECT s.id, s.version, p.state, p.next, p.run_count, p.last_run, p.last_status
FROM progress p JOIN schedules s ON s.id = p.schedule
WHERE p.owner = ? AND p.state IN ('active', 'paused', 'broken') AND p.kind = ? AND s.subject = ? ORDER BY s.id

-- name: ended_mark
-- What came and went between two looks is among the newest that ended; how many there are of old costs nothing.
SELECT max(s.id) FROM
  (SELECT schedule FROM progress WHERE owner = ? AND state = 'ended' AND kind = ? ORDER BY schedule DESC LIMIT 200) newest
  JOIN schedules s ON s.id = newest.schedule WHERE s.subject = ?

-- name: schedules_ahead
-- What was decided for a time that has not come yet: occurrences, also those that an hourly limit holds back (by an hour,
-- and a jitter of a day at most), and retries and leases of runs.
SELECT schedule FROM (
  SELECT schedule FROM progress WHERE through > ? AND state IN ('active', 'paused', 'ended')
  UNION SELECT p.schedule FROM progress p JOIN due d ON d.schedule = p.schedule AND d.run = 0
  WHERE p.note IS NOT NULL AND p.state = 'active' AND d.at > p.next + 90000000000 AND d.at > ? + 7200000000
  UNION SELECT r.schedule FROM runs r
  WHERE r.id IN (SELECT id FROM runs WHERE status = 'running' OR status = 'pending' OR status = 'queued' OR status = 'waiting')
    AND r.status IN ('pending', 'waiting')
    AND (r.due > ? OR r.started > ? OR EXISTS (SELECT 1 FROM attempts a WHERE a.run = r.id AND a.finished > ?))
) ahead WHERE schedule > ? ORDER BY schedule LIMIT ?

-- name: ranges_beyond
SELECT r.* FROM runs r WHERE r.schedule = ? AND r.last > ? AND r.status IN ('missed', 'skipped') ORDER BY r.id

-- name: delete_range
DELETE FROM runs WHERE id = ?

-- name: last_finished
SELECT max(finished) FROM attempts WHERE run = ?

-- name: count_living
-- Bounded: a quota needs no more than to know whether it is reached.
SELECT count(*) FROM (SELECT 1 FROM progress WHERE owner = ? AND state IN ('active', 'paused') LIMIT ?) AS living

-- name: run_by_id
SELECT r.* FROM runs r WHERE r.id = ?

-- name: run_as_claimed
SELECT r.*, r.payload, r.actor FROM runs r WHERE r.id = ?

-- name: input_of_run
SELECT payload, actor FROM runs WHERE id = ?

-- name: traceback_of_run
SELECT traceback FROM runs WHERE id = ?

-- name: starts_at
SELECT at FROM due WHERE schedule = ? AND run = ?

-- name: run_before
-- By the index alone: the row may hold a long result.
SELECT id FROM runs WHERE schedule = ? AND (due, id) < (?, ?) ORDER BY due DESC, id DESC LIMIT 1

-- name: run_after
SELECT id FROM runs WHERE schedule = ? AND (due, id) > (?, ?) ORDER BY due, id LIMIT 1

-- name: held_by
SELECT r.*, x.*, p.* FROM runs r JOIN schedules s ON s.id = r.schedule JOIN progress p ON p.schedule = r.schedule
WHERE r.worker = ? AND r.status = 'running'
ORDER BY r.schedule, r.id

-- name: stop_requests
SELECT id FROM runs
WHERE worker = ? AND (stop = 1 OR deadline <= ?) AND status = 'running'

-- name: oldest_queued
-- As in the index of live runs.
SELECT r.* FROM runs r
WHERE r.schedule = ? AND r.status = 'queued' AND (r.status = 'running' OR r.status = 'pending' OR r.status = 'queued' OR r.status = 'waiting')
ORDER BY r.due, r.id LIMIT 1

-- name: live_runs
SELECT r.* FROM runs r WHERE r.schedule = ? AND (r.status = 'running' OR r.status = 'pending' OR r.status = 'queued' OR r.status = 'waiting')
ORDER BY r.due, r.id

-- name: attempts_of
SELECT a.* FROM attempts a WHERE a.run = ? ORDER BY a.number

-- name: last_attempt
SELECT coalesce(max(number), 0) FROM attempts WHERE run = ?

-- name: last_retry
SELECT coalesce(max(number), 0) FROM attempts WHERE run = ? AND retried IS NOT NULL

-- name: taken_since
SELECT due FROM runs WHERE schedule = ? AND due >= ? AND cause = 'trigger'

-- name: last_manual_due
-- Within a second: later ones were started while the clock was ahead.
SELECT max(due) FROM runs WHERE schedule = ? AND cause = 'manual' AND due >= ? AND due < ?

-- name: workers
SELECT w.* FROM workers w ORDER BY w.id

-- name: beat_worker
UPDATE workers SET beat = beat + 1, seen = ?, not_begun = ? WHERE id = ? RETURNING 1

-- name: retire_worker
DELETE FROM workers AS w WHERE w.id = ? AND NOT EXISTS (
  SELECT 1 FROM runs r
  WHERE r.worker = w.id AND r.status = 'running' AND r.status IN ('pending', 'queued', 'running', 'waiting'))

-- name: floor
SELECT value FROM meta WHERE key = 'floor'

-- name: health
SELECT (SELECT count(*) FROM progress WHERE state <> 'deleted'),
  (SELECT count(*) FROM due),
  (SELECT count(*) FROM due WHERE at < ?),
  (SELECT count(*) FROM runs WHERE status = 'running'),
  (SELECT min(at) FROM due)

-- name: use
INSERT INTO usage (owner, hour, runs) VALUES (?, ?, ?) ON CONFLICT (owner, hour)
DO UPDATE SET runs = usage.runs + excluded.runs

-- name: forget_usage
DELETE FROM usage WHERE hour < ?

-- name: spent
SELECT subject, runs, tokens, micros FROM spent WHERE owner = ? AND day = ?

-- name: spent_since
SELECT day, subject, runs, tokens, micros FROM spent WHERE owner = ? AND day >= ?

-- name: add_spent
INSERT INTO spent (owner, day, subject, runs, tokens, micros) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (owner, day, subject)
DO UPDATE SET runs = spent.runs + excluded.runs, tokens = spent.tokens + excluded.tokens, micros = spent.micros + excluded.micros

-- name: forget_spent
DELETE FROM spent WHERE day < ?

-- name: insert_remote
INSERT INTO remotes (id, owner, kind, topic, trigger, payload, at, remote, state, key, fingerprint, created, updated)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING 1

-- name: remote_by_id
SELECT m.* FROM remotes m WHERE m.id = ?

-- name: remote_by_key
SELECT m.* FROM remotes m WHERE m.owner = ? AND m.key = ?

-- name: remotes_of
SELECT m.* FROM remotes m WHERE m.owner = ? AND (m.at IS NULL OR m.at > ?) ORDER BY m.created, m.id

-- name: remotes_on
SELECT m.* FROM remotes m WHERE m.owner = ? AND m.topic = ? AND (m.at IS NULL OR m.at > ?) ORDER BY m.created, m.id

-- name: remote_marks
SELECT id, state, updated, at, trigger FROM remotes
WHERE owner = ? AND topic = ? AND (at IS NULL OR at > ?) ORDER BY id

-- name: count_remotes
-- Bounded: a quota needs no more than to know whether it is reached.
SELECT count(*) FROM (
  SELECT 1 FROM remotes WHERE owner = ? AND (at IS NULL OR at > ?) AND state IN ('there', 'paused') LIMIT ?) AS living

-- name: update_remote
UPDATE remotes SET at = ?, remote = ?, state = ?, updated = ? WHERE id = ? RETURNING 1

-- name: repeat_remote
-- Taken by one of those who repeat the request: the state is looked at again where two meet.
UPDATE remotes SET state = 'asked', updated = ? WHERE state = 'unsure' AND id = (
  SELECT id FROM remotes WHERE owner = ? AND fingerprint = ? AND state = 'unsure' AND updated > ?
  ORDER BY created, id LIMIT 1) RETURNING id

-- name: delete_remote
DELETE FROM remotes WHERE id = ? RETURNING 1

-- name: prune_remotes
-- One-offs that went out; what recurs stays until it is deleted.
DELETE FROM remotes WHERE id IN (SELECT id FROM remotes WHERE at < ? ORDER BY at LIMIT ?) RETURNING 1

-- name: insert_revocation
-- Of two who insert the same id at once, one waits for the other and then inserts nothing.
INSERT INTO revocations (id, at, expires) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING 1

-- name: revoked
SELECT id FROM revocations WHERE id IN (?, ?)

-- name: forget_revocations
DELETE FROM revocations WHERE id IN (SELECT id FROM revocations WHERE expires < ? ORDER BY expires LIMIT ?) RETURNING 1

-- name: rotations
SELECT generation, since, recent FROM rotations WHERE owner = ?

-- name: keep_rotations
INSERT INTO rotations (owner, generation, since, recent) VALUES (?, ?, ?, ?) ON CONFLICT (owner)
DO UPDATE SET generation = excluded.generation, since = excluded.since, recent = excluded.recent RETURNING 1

-- name: insert_hook
INSERT INTO hooks (id, owner, name, scheme, secret, created, used, deliveries)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING 1

-- name: hook
SELECT id, owner, name, scheme, secret, created, used, deliveries FROM hooks WHERE id = ?

-- name: hooks_of
SELECT id, owner, name, scheme, secret, created, used, deliveries FROM hooks WHERE owner = ? ORDER BY name LIMIT ?

-- name: hooks
SELECT id, owner, name, scheme, secret, created, used, deliveries FROM hooks ORDER BY owner, name LIMIT ?

-- name: update_hook
UPDATE hooks SET secret = ?, used = ?, deliveries = ? WHERE id = ? RETURNING 1

-- name: delete_hook
DELETE FROM hooks WHERE id = ? RETURNING 1

-- name: add_stored_bytes
INSERT INTO stored_bytes (owner, bytes, counted) VALUES (?, ?, 0) ON CONFLICT (owner)
DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes RETURNING bytes, counted

-- name: stored_bytes
SELECT bytes, counted FROM stored_bytes WHERE owner = ?

-- name: set_stored_bytes
INSERT INTO stored_bytes (owner, bytes, counted) VALUES (?, ?, ?) ON CONFLICT (owner)
DO UPDATE SET bytes = excluded.bytes, counted = excluded.counted RETURNING bytes

-- name: doubt_stored_bytes
UPDATE stored_bytes SET counted = ? WHERE owner = ? AND counted > ?

-- part: bytes_of_run
-- The length of a large text is known without reading it.
octet_length(coalesce(r.result, '')) + octet_length(coalesce(r.payload, '')) + octet_length(coalesce(r.error, ''))
  + octet_length(coalesce(r.traceback, '')) + octet_length(coalesce(r.gate, '')) + 300
  + coalesce((SELECT sum(octet_length(coalesce(a.error, '')) + octet_length(coalesce(a.traceback, '')) + 100)
    FROM attempts a WHERE a.run = r.id), 0)
  + coalesce((SELECT sum(octet_length(l.text) + 60) FROM run_logs l WHERE l.run = r.id), 0)

-- name: count_stored_bytes
-- By the indexes of owners.
SELECT (SELECT coalesce(sum(octet_length(payload) + octet_length(policy) + 500), 0) FROM schedules WHERE owner = ?)
  + (SELECT coalesce(sum({bytes_of_run}), 0) FROM runs r WHERE r.owner = ?)
  + (SELECT coalesce(sum(octet_length(data) + 200), 0) FROM events WHERE owner = ?)

-- name: weighed
-- The last run whose bytes are in the total of its owner. The row stays locked, for the next who goes on from it.
INSERT INTO meta (key, value) VALUES ('weighed', 0) ON CONFLICT (key) DO UPDATE SET value = meta.value RETURNING value

-- name: set_weighed
UPDATE meta SET value = ? WHERE key = 'weighed'

-- name: weigh_runs
-- What has not ended counts as much as it will store at most: a total that is too high is only counted once more.
SELECT owner, max(id), count(*), sum(bytes) FROM (
  SELECT r.id, r.owner, {bytes_of_run}
    + CASE WHEN r.status IN ('pending', 'queued', 'running', 'waiting') THEN 100000 ELSE 0 END AS bytes
  FROM runs r WHERE r.id > ? ORDER BY r.id LIMIT ?
) AS fresh GROUP BY owner

-- name: owners_above
SELECT owner FROM stored_bytes WHERE bytes > ? AND owner <> ?

-- name: forget_attempts
-- The earlier attempts of runs that have not ended.
DELETE FROM attempts WHERE run IN (
  SELECT id FROM runs WHERE owner = ? AND status IN ('pending', 'queued', 'running', 'waiting')
) AND number < (SELECT max(later.number) FROM attempts later WHERE later.run = attempts.run) RETURNING 1

-- name: forget_logs
-- What the earlier attempts of runs that have not ended wrote.
DELETE FROM run_logs WHERE run IN (
  SELECT id FROM runs WHERE owner = ? AND status IN ('pending', 'queued', 'running', 'waiting')
) AND attempt < (SELECT max(later.attempt) FROM run_logs later WHERE later.run = run_logs.run) RETURNING 1

-- name: write_log
-- Only by whoever has the run; written again if nobody knows whether it was written.
INSERT INTO run_logs (run, fence, part, attempt, at, text)
SELECT r.id, r.fence, CAST(? AS bigint), CAST(? AS integer), CAST(? AS bigint), CAST(? AS text)
FROM runs r WHERE r.id = ? AND r.fence = ?
ON CONFLICT (run, fence, part) DO UPDATE SET text = excluded.text

-- name: drop_middle_of_log
DELETE FROM run_logs WHERE run = ? AND fence = ? AND part >= ? AND part < ?

-- name: drop_logs_of_attempts
DELETE FROM run_logs WHERE run = ? AND attempt <= ?

-- name: logs_of
SELECT run, fence, part, attempt, at, text FROM run_logs WHERE run = ? AND (fence, part) > (?, ?)
ORDER BY fence, part LIMIT ?

-- name: delete_logs_of_schedule
DELETE FROM run_logs WHERE run IN (SELECT id FROM runs WHERE schedule = ?)

-- name: lock_living
-- Creates of one owner take turns from here on; what they count is read by a later statement.
INSERT INTO living_counts (owner, living, counted) VALUES (?, 0, 0)
ON CONFLICT (owner) DO UPDATE SET living = living_counts.living

-- name: add_living_within
UPDATE living_counts SET living = living + ? WHERE owner = ? AND living + ? <= ? AND counted BETWEEN ? AND ? RETURNING 1

-- name: set_living
UPDATE living_counts SET living = ?, counted = ? WHERE owner = ?

-- name: add_living
-- A row that is new says nothing about the schedules before it: it is as good as counted long ago.
INSERT INTO living_counts (owner, living, counted) VALUES (?, ?, 0)
ON CONFLICT (owner) DO UPDATE SET living = living_counts.living + excluded.living

-- name: published
SELECT settings FROM published

-- name: publish
INSERT INTO published (id, settings) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET settings = excluded.settings
RETURNING 1

-- name: store_id
SELECT value FROM meta WHERE key = 'store'

-- name: executors
SELECT name, type, workers, problem, seen FROM executors ORDER BY name

-- name: note_executor
INSERT INTO executors (name, type, workers, problem, seen) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET
  type = excluded.type, workers = excluded.workers, problem = excluded.problem, seen = excluded.seen RETURNING 1

-- name: note_incident
-- An open incident with the same cause counts once more. Causes beyond a limit count as one.
INSERT INTO incidents (owner, schedule, trouble, cause, text, run, first, last, number, alert, due)
SELECT CAST(? AS text), CAST(? AS bigint), CAST(? AS text),
  CASE WHEN (SELECT count(*) FROM incidents o WHERE o.schedule = ? AND o.recovered IS NULL AND o.cause <> ?) >= ?
    THEN ? ELSE CAST(? AS text) END,
  CAST(? AS text), CAST(? AS bigint), CAST(? AS bigint), CAST(? AS bigint), 1, CAST(? AS text), CAST(? AS bigint)
WHERE true
ON CONFLICT (schedule, cause) WHERE recovered IS NULL DO UPDATE SET
  last = excluded.last, number = incidents.number + 1, text = excluded.text, run = excluded.run, alert = excluded.alert,
  due = CASE WHEN excluded.alert = 'off' THEN NULL WHEN incidents.resolved IS NULL
    AND (excluded.alert = 'every' OR incidents.due IS NULL AND incidents.told IS NULL)
    THEN excluded.due ELSE incidents.due END

-- name: is_session
SELECT session FROM workers WHERE id = ?

-- name: end_incident
-- What went well since is over, and so is what nobody wants any more. The owner hears of the former if it was told.
UPDATE incidents SET recovered = ?,
  due = CASE WHEN told IS NOT NULL AND resolved IS NULL AND alert <> 'off' AND ? = 1 THEN CAST(? AS bigint) END
WHERE id = ? AND recovered IS NULL AND last = ?

-- part: is_over
-- One outage is one message, so that nobody hears that what was missed goes on. Without a run, what nobody took waits
-- for a worker with its label; it is over when it is no longer in the queue.
p.state IN ('cancelled', 'deleted')
  OR CASE WHEN i.trouble IN ('paused', 'broken') THEN p.state NOT IN ('paused', 'broken')
    WHEN i.trouble = 'untaken' AND i.run IS NULL
    THEN NOT EXISTS (SELECT 1 FROM due d WHERE d.schedule = i.schedule AND d.at <= i.last)
    WHEN i.trouble = 'held' THEN NOT EXISTS (SELECT 1 FROM runs h
      WHERE h.schedule = i.schedule AND h.status = 'waiting' AND substr(h.error, 1, 6) = 'held: ')
    ELSE p.failures = 0 AND coalesce(p.last_status, '') = 'completed' AND coalesce(p.last_run, 0) >= i.last END

-- name: incidents_over
SELECT i.schedule, i.cause, i.id, i.last, CASE WHEN p.last_status = 'completed'
  AND p.state IN ('active', 'paused', 'ended') AND i.trouble <> 'missed' THEN 1 ELSE 0 END
FROM incidents i JOIN progress p ON p.schedule = i.schedule
WHERE i.recovered IS NULL AND ({is_over})
LIMIT 1000

-- name: owners_to_tell
SELECT owner FROM (SELECT DISTINCT owner FROM incidents WHERE due <= ?) AS waiting
WHERE NOT EXISTS (SELECT 1 FROM incidents t WHERE t.owner = waiting.owner AND t.told BETWEEN ? AND ?)
ORDER BY owner LIMIT 1000

-- name: is_just_told
-- A time that is far in the future is from a clock that was ahead.
SELECT 1 FROM incidents WHERE owner = ? AND told BETWEEN ? AND ? LIMIT 1

-- name: incidents_to_tell
SELECT i.*, s.name, s.public_id, s.kind, s.policy FROM incidents i JOIN schedules s ON s.id = i.schedule
WHERE i.owner = ? AND i.due <= ? ORDER BY i.id

-- name: told_incident
-- It may have happened again since it was read, or somebody has resolved it.
UPDATE incidents SET told = ?, reminders = reminders + ?, due = CASE WHEN resolved IS NOT NULL OR alert = 'off' THEN NULL
  WHEN alert = 'every' AND number > ? THEN due ELSE CAST(? AS bigint) END
WHERE id = ?

-- name: silence_incident
UPDATE incidents SET alert = 'off', due = NULL WHERE id = ?

-- name: incidents_known
-- Each with its schedule and with its latest run, which may have been deleted.
SELECT i.*, s.name, s.public_id, s.kind, r.status, r.number, r.due, COALESCE(r.last, r.due), s.policy
FROM incidents i JOIN schedules s ON s.id = i.schedule JOIN progress p ON p.schedule = i.schedule
LEFT JOIN runs r ON r.id = i.run
WHERE i.recovered IS NULL

-- name: incidents_open
-- A worker ends the others soon: see `incidents_over`. While the run is tried again, nobody needs to do anything.
{incidents_known}
AND NOT ({is_over}) AND coalesce(r.status, '') NOT IN ('pending', 'queued', 'running', 'waiting')

-- name: resolve_incidents
UPDATE incidents SET resolved = ?, actor = ?, due = NULL
WHERE (run = ? OR id = ?) AND recovered IS NULL AND resolved IS NULL

-- name: reopen_incidents
UPDATE incidents SET resolved = NULL, actor = NULL, due = CASE WHEN alert = 'off' THEN NULL ELSE CAST(? AS bigint) END
WHERE (run = ? OR id = ?) AND recovered IS NULL AND resolved IS NOT NULL

-- name: forget_incidents
DELETE FROM incidents WHERE recovered < ? OR (resolved < ? AND last < ?)
  OR NOT EXISTS (SELECT 1 FROM schedules s WHERE s.id = incidents.schedule)

-- name: insert_tombstone
INSERT INTO tombstones (schedule, payload, key, deleted) VALUES (?, ?, ?, ?)

-- name: forget_inputs
UPDATE runs SET payload = NULL, gate = NULL WHERE schedule = ? AND (payload IS NOT NULL OR gate IS NOT NULL)

-- The callbacks about runs of a schedule, whose bodies contain its payload; `/` follows `.`.
-- name: callbacks_about
SELECT s.id, s.payload FROM runs r JOIN schedules s
  ON s.owner = r.owner AND s.key >= '~run:' || r.id || '.' AND s.key < '~run:' || r.id || '/'
WHERE r.schedule = ?

-- name: set_payload_of_schedule
UPDATE schedules SET payload = ? WHERE id = ?

-- name: tombstone
SELECT schedule, payload, key, deleted FROM tombstones WHERE schedule = ?

-- name: delete_tombstone
DELETE FROM tombstones WHERE schedule = ?

-- name: is_tombstone_older
SELECT 1 FROM tombstones WHERE deleted < ? LIMIT 1

-- name: forget_memories
DELETE FROM memories WHERE schedule IN (SELECT schedule FROM tombstones WHERE deleted < ?)

-- name: forget_tombstones
DELETE FROM tombstones WHERE deleted < ?

-- name: deleted_schedules
SELECT s.*, p.* FROM tombstones t JOIN schedules s ON s.id = t.schedule JOIN progress p ON p.schedule = s.id
WHERE s.owner = ? AND t.deleted > ? ORDER BY t.deleted DESC, s.id DESC LIMIT ?

-- name: pause_of_all
-- The pause of the newest paused schedule of an owner; how many are paused and how many are not, up to a limit; and when
-- the oldest that is not paused was created.
SELECT s.updated, s.resume_at,
  (SELECT count(*) FROM (SELECT 1 FROM progress WHERE owner = ? AND state = 'paused' LIMIT 100) paused),
  (SELECT count(*) FROM (SELECT 1 FROM progress WHERE owner = ? AND state = 'active' LIMIT 100) active),
  (SELECT created FROM schedules WHERE id = (SELECT min(schedule) FROM progress WHERE owner = ? AND state = 'active'))
FROM progress p JOIN schedules s ON s.id = p.schedule
WHERE p.owner = ? AND p.state = 'paused' ORDER BY p.schedule DESC LIMIT 1

-- name: follow
UPDATE progress SET followed = 1 WHERE schedule = ? AND followed = 0

-- name: replace_trigger
UPDATE schedules SET trigger = ? WHERE id = ? AND trigger = ?

-- name: trigger_of
SELECT trigger FROM schedules WHERE id = ?

-- name: insert_event
INSERT INTO events (owner, name, key, at, depth, data) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id

-- name: event_by_key
SELECT id FROM events WHERE owner = ? AND name = ? AND key = ?

-- name: event_by_id
SELECT id, owner, name, key, at, depth, data, reached FROM events WHERE id = ?

-- name: event_depth
SELECT depth FROM events WHERE id = ?

-- name: count_events
-- The row stays locked: events of one owner are stored one transaction after the other, in the order of their numbers.
INSERT INTO event_counts (owner, minute, number, total) VALUES (?, ?, ?, ?) ON CONFLICT (owner) DO UPDATE SET
  number = CASE WHEN event_counts.minute = excluded.minute THEN event_counts.number ELSE 0 END + excluded.number,
  minute = excluded.minute, total = event_counts.total + excluded.total
RETURNING number, total

-- name: add_to_events
UPDATE event_counts SET total = total + ? WHERE owner = ?

-- name: has_open_events
SELECT 1 FROM events WHERE reached IS NOT NULL LIMIT 1

-- name: open_events
SELECT id, owner, name, key, at, depth, data, reached FROM events WHERE reached IS NOT NULL ORDER BY id LIMIT ?

-- name: set_reached
UPDATE events SET reached = ? WHERE id = ?

-- part: needed_events
-- Those of runs that have not ended.
SELECT CAST(substr(cause, 7) AS bigint) FROM runs
WHERE (status = 'running' OR status = 'pending' OR status = 'queued' OR status = 'waiting')
  AND cause >= 'event:' AND cause < 'event;'

-- name: old_events
-- Among the oldest only, so that a look that finds nothing costs the same, however many there are.
SELECT 1 FROM (SELECT at FROM events WHERE reached IS NULL ORDER BY id LIMIT 5000) AS oldest WHERE at < ? LIMIT 1

-- name: event_names
-- From name to name: how many events have one costs nothing. Names of the engine begin with the last character.
WITH RECURSIVE names (name) AS (
  SELECT min(e.name) FROM events e WHERE e.owner = ? AND e.name < '~'
  UNION ALL
  SELECT (SELECT min(e.name) FROM events e WHERE e.owner = ? AND e.name > names.name AND e.name < '~')
  FROM names WHERE names.name IS NOT NULL
)
SELECT n.name, (SELECT e.at FROM events e WHERE e.owner = ? AND e.name = n.name ORDER BY e.id DESC LIMIT 1)
FROM names n WHERE n.name IS NOT NULL LIMIT ?

-- name: memory_of
SELECT gate, number, memory, told FROM memories WHERE schedule = ?

-- name: gate_gifts
-- As in the index of live runs.
SELECT r.id, r.gate FROM runs r
WHERE r.schedule = ? AND (r.status = 'running' OR r.status = 'pending' OR r.status = 'queued' OR r.status = 'waiting')
  AND r.gate IS NOT NULL

-- name: trace_of
SELECT r.trace FROM runs r WHERE r.id = ?

-- name: whole_run_before
SELECT r.* FROM runs r WHERE r.schedule = ? AND (r.due, r.id) < (?, ?) ORDER BY r.due DESC, r.id DESC LIMIT 1

-- name: remember_gate
INSERT INTO memories (schedule, gate, number, memory) VALUES (?, ?, ?, ?)
ON CONFLICT (schedule) DO UPDATE SET gate = excluded.gate, number = excluded.number, memory = excluded.memory
WHERE coalesce(memories.gate, excluded.gate) = excluded.gate AND memories.number < excluded.number

-- name: reset_gate
INSERT INTO memories (schedule, gate) VALUES (?, ?)
ON CONFLICT (schedule) DO UPDATE SET gate = excluded.gate, memory = NULL

-- name: remember_told
INSERT INTO memories (schedule, told) VALUES (?, ?) ON CONFLICT (schedule) DO UPDATE SET told = excluded.told

-- name: forget_told
UPDATE memories SET told = NULL WHERE schedule = ?

-- name: delete_memory
DELETE FROM memories WHERE schedule = ?
