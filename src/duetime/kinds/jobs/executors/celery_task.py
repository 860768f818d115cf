"""The task that Celery workers need to run what Duetime hands over. Name this module in `include` of your app."""

from __future__ import annotations

from duetime.kinds.jobs.executors import package
from duetime.kinds.jobs.executors.celery import TASK
from duetime.kinds.jobs.remote import call

call_task = package("celery", "celery").shared_task(name=TASK, acks_late=True, reject_on_worker_lost=True)(call)
