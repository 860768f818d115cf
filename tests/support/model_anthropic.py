"""Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.model_wire import Answer, Call, Dialect, Entry, Event, Request, parts_of, text_of, words_of


class Anthropic(Dialect):
    name = "anthropic"
    path = "/messages"

    def counts(self, path: str) -> bool:
        return path.endswith("/count_tokens")

    def entries(self, body: Mapping[str, Any]) -> Iterator[Entry]:
        yield Entry("system", text_of(body.get("system")))
        called: dict[str, str] = {}
        for message in body.get("messages", ()):
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks:
                if block["type"] == "text":
                    yield Entry("model" if message["role"] == "assistant" else message["role"], block["text"])
                elif block["type"] == "tool_use":
                    called[block["id"]] = block["name"]
                    yield Entry("model", tool=block["name"])
                elif block["type"] == "tool_result":
                    text = text_of(block.get("content"))
                    yield Entry("tool", text, called.get(block["tool_use_id"], ""), bool(block.get("is_error")))

    def offered(self, body: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
        for tool in body.get("tools") or ():
            if "input_schema" in tool:
                yield tool["name"], tool.get("description", ""), None

    def whole(self, answer: Answer, request: Request) -> dict[str, Any]:
        return {
            **self._message(request, answer.usage[0], answer.usage[1]),
            "content": [self._block(part) for part in parts_of(answer)],
            "stop_reason": self._reason(answer),
        }

    def events(self, answer: Answer, request: Request) -> Iterator[Event]:
        yield self._event("message_start", message=self._message(request, answer.usage[0], 1))
        for index, part in enumerate(parts_of(answer)):
            empty = {"type": "text", "text": ""} if isinstance(part, str) else {**self._block(part), "input": {}}
            yield self._event("content_block_start", index=index, content_block=empty)
            if isinstance(part, str):
                for word in words_of(part):
                    delta = {"type": "text_delta", "text": word}
                    yield self._event("content_block_delta", index=index, delta=delta)._replace(is_word=True)
            else:
                delta = {"type": "input_json_delta", "partial_json": json.dumps(part.arguments)}
                yield self._event("content_block_delta", index=index, delta=delta)
            yield self._event("content_block_stop", index=index)
        ending = {"stop_reason": self._reason(answer), "stop_sequence": None}
        yield self._event("message_delta", delta=ending, usage={"output_tokens": answer.usage[1]})
        yield self._event("message_stop")

    def _event(self, type_: str, **fields: Any) -> Event:
        return Event({"type": type_, **fields}, type_)

    def _message(self, request: Request, used: int, made: int) -> dict[str, Any]:
        return {
            "id": f"msg_{len(request.turns)}",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": used, "output_tokens": made},
        }

    def _block(self, part: str | Call) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        return {"type": "tool_use", "id": part.id, "name": part.tool, "input": part.arguments}

    def _reason(self, answer: Answer) -> str:
        return "tool_use" if answer.calls else "end_turn"
