"""The fields of a job in the dashboard's form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from duetime.dashboard.kind_forms import KindForm, Values, json_of
from duetime.engine.kind import Caller
from duetime.kinds.jobs.kind import JobKind
from duetime.service.services import Services


class JobForm(KindForm):
    fields = ("task", "args", "kwargs")
    template = "job/form.html"
    named_by = ("task",)
    named_by_label = "task"

    def read(self, values: Values) -> dict[str, Any]:
        return {
            "task": values["task"],
            "args": json_of(values, "args", list),
            "kwargs": json_of(values, "kwargs", dict),
        }

    def show(self, payload: Mapping[str, Any]) -> Values:
        arguments = {name: payload.get(name) for name in ("args", "kwargs")}
        shown = {name: json.dumps(value, ensure_ascii=False) if value else "" for name, value in arguments.items()}
        return super().show(payload) | shown

    def context(self, services: Services, caller: Caller) -> dict[str, Any]:
        return {"tasks": services.kind(JobKind).registry.describe(caller)}


FORM = JobForm()
