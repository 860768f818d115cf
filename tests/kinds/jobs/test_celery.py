"""The executor for Celery, beside what test_clusters.py tries on real workers."""

from __future__ import annotations

import pytest

from duetime.kinds.jobs.executors.status import executor_checks
from duetime.settings import ExecutorSettings, Settings
from tests.support.ports import free_port

pytest.importorskip("celery", reason="the extra celery is not installed")
pytestmark = pytest.mark.process


def test_a_redis_that_is_away_is_named_without_its_password() -> None:
    address = f"redis://:hunter2-hunter2@127.0.0.1:{free_port()}/0"
    settings = Settings(executors={"cluster": ExecutorSettings("celery", address)})
    (check,) = executor_checks(settings)
    assert check.status == "fail" and "cluster (celery at redis://" in check.message
    assert "hunter2" not in check.message
