"""The fields of a prompt in the dashboard's form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from duetime.dashboard.kind_forms import KindForm, Values, json_of, number_of, text_of
from duetime.engine.kind import Caller
from duetime.kinds.prompts.kind import PromptKind
from duetime.service.services import Services

_LIMITS: Final = ("max_runs_per_day", "max_tokens_per_day", "max_dollars_per_day")


class PromptForm(KindForm):
    fields = ("prompt", "agent", "allow", *_LIMITS)
    template = "prompt/form.html"
    named_by = ("prompt",)
    own_policy = ("deliver_to",)
    text_field = "prompt"
    samples: Mapping[str, Any] = MappingProxyType({"prompt": "sample"})
    waits = True

    def read(self, values: Values) -> dict[str, Any]:
        limits = {name: number_of(values, name) if values[name].strip() else None for name in _LIMITS}
        allow = json_of(values, "allow", dict) if values["allow"].strip() else None
        return {"prompt": values["prompt"] or None, "agent": values["agent"] or None, "allow": allow, **limits}

    def show(self, payload: Mapping[str, Any]) -> Values:
        return {name: text_of(payload.get(name)) for name in self.fields}

    def context(self, services: Services, caller: Caller, values: Values) -> dict[str, Any]:
        kind = services.kind(PromptKind)
        agents = [each["name"] for each in kind.describe_agents(caller.owner)]
        return {"agents": agents, "default_agent": kind.agents(caller.owner)[0], "limit_names": _LIMITS}


FORM = PromptForm()
