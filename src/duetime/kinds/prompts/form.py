"""The fields of a prompt in the dashboard's form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from duetime.dashboard.kind_forms import KindForm, Values
from duetime.engine.kind import Caller
from duetime.kinds.prompts.kind import PromptKind
from duetime.kinds.prompts.payload import LIMITS, PromptPayload
from duetime.service.services import Services


class PromptForm(KindForm):
    model = PromptPayload
    fields = ("prompt", "agent", "allow", *LIMITS)
    template = "prompt/form.html"
    named_by = ("prompt",)
    own_policy = ("deliver_to",)
    text_field = "prompt"
    samples: Mapping[str, Any] = MappingProxyType({"prompt": "sample"})
    waits = True

    def context(self, services: Services, caller: Caller, values: Values) -> dict[str, Any]:
        kind = services.kind(PromptKind)
        agents = [each["name"] for each in kind.describe_agents(caller.owner)]
        return {"agents": agents, "default_agent": kind.agents(caller.owner)[0]}


FORM = PromptForm()
