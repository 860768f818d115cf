"""A model that answers with the help of tools, over the Messages API: plain HTTP, a bounded number of turns."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client

TURNS = 15
TOKENS = 2000
SYSTEM = (
    "Answer the user's question with the tools you have; nobody can be asked back. Do what it says, in that order. "
    "End with the answer alone between <answer> and </answer>."
)


class ModelProblem(Exception):
    """The model gave no answer, and why."""


class Model:
    def __init__(self, http: httpx2.AsyncClient, url: str, key: str, name: str) -> None:
        self._http, self._url, self._name = http, f"{url.rstrip('/')}/v1/messages", name
        self._headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}

    async def answer(self, question: str, client: Client) -> str:
        tools = [_tool(tool) for tool in (await client.list_tools()).tools]
        messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        for _ in range(TURNS):
            content = await self._said(messages, tools)
            messages.append({"role": "assistant", "content": content})
            calls = [block for block in content if block["type"] == "tool_use"]
            if not calls:
                return _answer("".join(block.get("text", "") for block in content))
            messages.append({"role": "user", "content": [await _result(client, call) for call in calls]})
        raise ModelProblem(f"no answer after {TURNS} turns")

    async def _said(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        asked = {
            "model": self._name,
            "max_tokens": TOKENS,
            "system": SYSTEM,
            "tools": tools,
            "messages": messages,
        }
        reply = await self._http.post(self._url, json=asked, headers=self._headers)
        if reply.status_code != 200:
            raise ModelProblem(f"the model's server answered {reply.status_code}: {reply.text[:300]}")
        content: list[dict[str, Any]] = reply.json()["content"]
        return content


def _tool(tool: types.Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}


async def _result(client: Client, call: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(call["name"], call["input"])
    text = "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
    structured = f"\n{result.structured_content}" if result.structured_content and not text.startswith("{") else ""
    return {
        "type": "tool_result",
        "tool_use_id": call["id"],
        "content": f"{text}{structured}",
        "is_error": bool(result.is_error),
    }


def _answer(text: str) -> str:
    found = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    if not found:
        raise ModelProblem(f"the model ended without an answer: {text[-300:]}")
    return str(found[-1]).strip()
