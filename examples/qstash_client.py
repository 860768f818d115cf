"""Use the unmodified QStash SDK with Duetime as its server: `python qstash_client.py https://...`

Requires `pip install qstash`, a running `duetime serve`, and its address:

    export QSTASH_URL=http://127.0.0.1:8765
    export QSTASH_TOKEN=$(cat ~/.local/share/duetime/auth/local.token)
"""

from __future__ import annotations

import os
import sys

from qstash import QStash


def main(destination: str) -> None:
    client = QStash(os.environ["QSTASH_TOKEN"])  # reads QSTASH_URL from the environment

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
