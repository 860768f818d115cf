-- What happened, as its sender described it. `reached`: the last schedule for which it was decided whether the event
-- starts a run, and NULL once that is so for all.
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  key TEXT,
  at INTEGER NOT NULL,
  depth INTEGER NOT NULL,
  data TEXT NOT NULL,
  reached INTEGER DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX events_key ON events (owner, name, key) WHERE key IS NOT NULL;
CREATE INDEX events_named ON events (owner, name, id);
CREATE INDEX events_owner ON events (owner, id);
CREATE INDEX events_open ON events (id) WHERE reached IS NOT NULL;

-- How many events an owner sent in the latest minute, and how many are stored.
CREATE TABLE event_counts (
  owner TEXT PRIMARY KEY,
  minute INTEGER NOT NULL,
  number INTEGER NOT NULL,
  total INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The schedules that listen, by the name of the event. Schedules with times are not in it, so they cost an event nothing.
CREATE INDEX schedules_listening ON schedules (owner, json_extract(trigger, '$.event'), id)
WHERE instr(trigger, '"type":"event"') > 0 AND substr(key, 1, 6) <> '~gone-';

-- Code from before cannot read triggers that wait for an event: it must not write.
UPDATE meta SET value = 23 WHERE key = 'floor';
