"""Prompts: instructions that wake an agent at a time, or wait in the inbox until an agent takes them."""

from __future__ import annotations

from duetime.service.kind_spec import Command, KindSpec

SPEC = KindSpec(
    name="prompt",
    plural="prompts",
    build="duetime.kinds.prompts.build:build",
    payload_fields="prompt, agent",
    title="Wake an agent",
    family="prompts",
    tools="duetime.kinds.prompts.mcp.tools:TOOLS",
    cancel_tool="schedule_cancel",
    resources="duetime.kinds.prompts.mcp.inbox:RESOURCES",
    instructions="prompts wake an agent with instructions (schedule)",
    further_instructions="Prompts for the inbox wait for take_prompt; prompt_result tells what came of one.",
    api="duetime.kinds.prompts.api:routes",
    commands=(
        Command(
            "prompt",
            "duetime.kinds.prompts.cli:commands",
            "Prompts for agents: add, edit, list, take and finish them.",
        ),
        Command("chat", "duetime.kinds.prompts.chat:commands", "Talk to an agent that schedules things for you."),
    ),
    view="duetime.kinds.prompts.view:PROMPT",
    form="duetime.kinds.prompts.form:FORM",
    cost="duetime.kinds.prompts.runner:cost_of",
    editable="duetime.kinds.prompts.mcp.tools:EDITABLE",
    settings="duetime.kinds.prompts.settings:SETTINGS",
    checks="duetime.kinds.prompts.checks:CHECKS",
    text="prompt",
    recipient="agent",
    may_be_outside=lambda settings: False,
    colour=2,
    icon="prompt",
)
