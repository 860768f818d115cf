"""The fields of a notification in the dashboard's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetime.dashboard.kind_forms import KindForm, Values, number_of


class NotificationForm(KindForm):
    fields = ("message", "topic", "title", "priority", "tags", "click")
    template = "notification/form.html"
    named_by = ("title", "message")

    def read(self, values: Values) -> dict[str, Any]:
        tags = [tag for tag in (part.strip() for part in values["tags"].split(",")) if tag]
        return {
            "message": values["message"],
            "topic": values["topic"].strip(),
            "title": values["title"] or None,
            "priority": number_of(values, "priority") if values["priority"] else None,
            "tags": tags or None,
            "click": values["click"].strip() or None,
        }

    def show(self, payload: Mapping[str, Any]) -> Values:
        return super().show(payload) | {"tags": ", ".join(str(tag) for tag in payload.get("tags") or ())}


FORM = NotificationForm()
