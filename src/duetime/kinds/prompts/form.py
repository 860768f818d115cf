"""The fields of a prompt in the dashboard's form."""

from __future__ import annotations

from typing import Any

from duetime.dashboard.kind_forms import KindForm
from duetime.engine.kind import Caller
from duetime.kinds.prompts.kind import PromptKind
from duetime.service.services import Services


class PromptForm(KindForm):
    fields = ("prompt", "agent")
    template = "prompt/form.html"
    named_by = ("prompt",)
    own_policy = ("deliver_to",)

    def context(self, services: Services, caller: Caller) -> dict[str, Any]:
        kind = services.kind(PromptKind)
        agents = [each["name"] for each in kind.describe_agents(caller.owner)]
        return {"agents": agents, "default_agent": kind.agents(caller.owner)[0]}


FORM = PromptForm()
