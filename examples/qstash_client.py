"""A program that uses QStash, on a Duetime of its own: the SDK is unchanged. `python qstash_client.py https://...`

Needs `pip install qstash`, a running `duetime serve`, and where to find it:

    export QSTASH_URL=http://127.0.0.1:8765
    export QSTASH_TOKEN=$(cat ~/.local/share/duetime/auth/local.token)
"""

from __future__ import annotations

import os
import sys

from qstash import QStash


def main(destination: str) -> None:
    client = QStash(os.environ["QSTASH_TOKEN"])  # it reads QSTASH_URL by itself

    sent = client.message.publish_json(url=destination, body={"hello": "now"}, retries=3)
    print(f"published {sent.message_id}")  # type: ignore[union-attr]  # one destination, one answer

    schedule = client.schedule.create_json(
        destination=destination, cron="CRON_TZ=Europe/Berlin 0 9 * * 1-5", body={"hello": "at nine"}
    )
    print(f"scheduled {schedule}")
    print(f"schedules: {[each.cron for each in client.schedule.list()]}")
    client.schedule.delete(schedule)


if __name__ == "__main__":
    main(sys.argv[1])
