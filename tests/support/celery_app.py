"""The application of the Celery workers of a test, as a user has one."""

from __future__ import annotations

import os
from typing import Any

import celery  # type: ignore[import-not-found,import-untyped,unused-ignore]

address = os.environ["TEST_REDIS"]
app: Any = celery.Celery(broker=address, backend=address, include=["duetime.kinds.jobs.executors.celery_task"])
app.conf.broker_transport_options = {"visibility_timeout": 3600}
