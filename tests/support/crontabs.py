"""Realistic crontabs of five hundred lines, the same ones every time."""

from __future__ import annotations

import random

TIMES = (
    "0 {h} * * *", "{m} {h} * * *", "{m} {h} * * 1-5", "{m} {h} * * 0", "{m} {h} 1 * *", "{m} {h} 1,15 * *",
    "*/5 * * * *", "*/{step} * * * *", "{m} * * * *", "{m} */{step} * * *", "{m} {h} * * MON", "{m} {h} * JAN,JUL *",
    "{m},{n} {h} * * *", "0 9-17 * * MON-FRI", "{m} {h} */2 * *", "@hourly", "@daily", "@weekly", "@monthly", "@yearly",
    "@midnight", "{m} {h} 28-31 * *", "{m} {h} * * 6,7", "0-59/{step} * * * *", "{m} {h} L * *", "{m} {h} * * 5#1",
)  # fmt: skip
COMMANDS = (
    "/usr/local/bin/backup.sh",
    "/usr/bin/rsync -a --delete /srv/www/ backup:/srv/www/",
    "certbot renew --quiet",
    "/usr/bin/find /var/tmp -type f -mtime +{step} -delete",
    "php /var/www/artisan schedule:run",
    "pg_dump -Fc -f /b/db{m}.dump app",
    "/usr/bin/python3 /opt/jobs/report.py --day {h}",
    "test-runner --name 'nightly {m}'",
    '/opt/app/bin/sync --from "/srv/in box" --to /srv/out',
    "find /tmp -name '*.log' -exec gzip {{}} \\;",
    "env LANG=C /usr/bin/updatedb",
    "LANG=C NICE=yes /usr/bin/apt-get -q update",
    "/bin/true >/dev/null 2>&1",
    "curl -fsS https://example.org/ping/{m} > /dev/null",
    'mail -s "Report \\%d" me@example.org%Dear me,%see you at {h}.',
    "printf 'a b\\tc {n}'",
    "sync-mail --folder INBOX/Ünïcode",
)
ZONES = ("Europe/Berlin", "America/New_York", "UTC")


def crontab(lines: int = 500, seed: int = 7) -> str:
    """Return a crontab with comments, variables and blank lines; every command can be run without a shell."""
    chance = random.Random(seed)
    text = ["# m h dom mon dow command", "PATH=/usr/local/bin:/usr/bin:/bin", 'HOME="/srv/app"', ""]
    for number in range(lines):
        if number % 50 == 49:
            text += ["", f"# part {number // 50}", f"CRON_TZ={chance.choice(ZONES)}"]
        numbers = {"m": chance.randrange(60), "n": chance.randrange(60)}
        numbers |= {"h": chance.randrange(24), "step": chance.randint(2, 20)}
        space = chance.choice((" ", "\t", "   "))
        times = chance.choice(TIMES).format(**numbers).replace(" ", space)
        text.append(f"{times}{space}{chance.choice(COMMANDS).format(**numbers)}")
    return "\n".join(text) + "\n"
