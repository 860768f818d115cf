"""OpenAI's two APIs: Chat Completions, and Responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.model_wire import Answer, Call, Dialect, Entry, Event, Request, parts_of, text_of, words_of

_MADE = 1_900_000_000


class OpenAIChat(Dialect):
    name = "openai-chat"
    path = "/chat/completions"

    def entries(self, body: Mapping[str, Any]) -> Iterator[Entry]:
        called: dict[str, str] = {}
        for message in body.get("messages", ()):
            role, text = message["role"], text_of(message.get("content"))
            if role == "assistant":
                yield Entry("model", text)
                for call in message.get("tool_calls") or ():
                    called[call["id"]] = call["function"]["name"]
                    yield Entry("model", tool=call["function"]["name"])
            elif role == "tool":
                yield Entry("tool", text, called.get(message["tool_call_id"], ""))
            else:
                yield Entry("system" if role == "developer" else role, text)

    def offered(self, body: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
        for tool in body.get("tools") or ():
            yield tool["function"]["name"], tool["function"].get("description", ""), None

    def whole(self, answer: Answer, request: Request) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [self._call(call) for call in answer.calls]
        choice = {"index": 0, "message": message, "finish_reason": self._reason(answer), "logprobs": None}
        return {**self._head(request, "chat.completion"), "choices": [choice], "usage": self._usage(answer)}

    def events(self, answer: Answer, request: Request) -> Iterator[Event]:
        head = self._head(request, "chat.completion.chunk")

        def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
            return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        yield Event(chunk({"role": "assistant", "content": ""}))
        for word in words_of(answer.text):
            yield Event(chunk({"content": word}), is_word=True)
        for index, call in enumerate(answer.calls):
            yield Event(chunk({"tool_calls": [{"index": index, **self._call(call)}]}))
        yield Event(chunk({}, self._reason(answer)))
        if (request.body.get("stream_options") or {}).get("include_usage"):
            yield Event({**head, "choices": [], "usage": self._usage(answer)})
        yield Event("[DONE]")

    def _head(self, request: Request, object_: str) -> dict[str, Any]:
        return {"id": f"chat_{len(request.turns)}", "object": object_, "created": _MADE, "model": request.model}

    def _call(self, call: Call) -> dict[str, Any]:
        function = {"name": call.tool, "arguments": json.dumps(call.arguments)}
        return {"id": call.id, "type": "function", "function": function}

    def _reason(self, answer: Answer) -> str:
        return "tool_calls" if answer.calls else "stop"

    def _usage(self, answer: Answer) -> dict[str, int]:
        used, made = answer.usage
        return {"prompt_tokens": used, "completion_tokens": made, "total_tokens": used + made}


class OpenAIResponses(Dialect):
    name = "openai-responses"
    path = "/responses"

    def entries(self, body: Mapping[str, Any]) -> Iterator[Entry]:
        yield Entry("system", text_of(body.get("instructions")))
        given = body.get("input") or ()
        called: dict[str, str] = {}
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
            kind = item.get("type", "message")
            if kind == "function_call":
                called[item["call_id"]] = item["name"]
                yield Entry("model", tool=item["name"])
            elif kind == "function_call_output":
                yield Entry("tool", text_of(item["output"]), called.get(item["call_id"], ""))
            elif kind == "message":
                role = {"assistant": "model", "developer": "system"}.get(item["role"], item["role"])
                yield Entry(role, text_of(item["content"]))

    def offered(self, body: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
        for tool in body.get("tools") or ():
            if tool["type"] == "function":
                yield tool["name"], tool.get("description") or "", None
            elif tool["type"] == "namespace":
                for inner in tool.get("tools", ()):
                    yield inner["name"], inner.get("description") or "", tool["name"]

    def whole(self, answer: Answer, request: Request) -> dict[str, Any]:
        items = [self._item(part, request, "completed") for part in parts_of(answer)]
        return self._response(request, "completed", items, answer)

    def events(self, answer: Answer, request: Request) -> Iterator[Event]:
        for number, (type_, fields, is_word) in enumerate(self._events(answer, request)):
            yield Event({"type": type_, "sequence_number": number, **fields}, type_, is_word)

    def _events(self, answer: Answer, request: Request) -> Iterator[tuple[str, dict[str, Any], bool]]:
        begun = self._response(request, "in_progress", [], None)
        yield "response.created", {"response": begun}, False
        yield "response.in_progress", {"response": begun}, False
        for index, part in enumerate(parts_of(answer)):
            item = self._item(part, request, "in_progress")
            where = {"item_id": item["id"], "output_index": index}
            empty: dict[str, Any] = {"content": []} if isinstance(part, str) else {"arguments": ""}
            yield "response.output_item.added", {"output_index": index, "item": {**item, **empty}}, False
            if isinstance(part, str):
                yield from self._said(part, {**where, "content_index": 0})
            else:
                arguments = json.dumps(part.arguments)
                yield "response.function_call_arguments.delta", {**where, "delta": arguments}, False
                done = {**where, "name": part.tool, "arguments": arguments}
                yield "response.function_call_arguments.done", done, False
            whole = self._item(part, request, "completed")
            yield "response.output_item.done", {"output_index": index, "item": whole}, False
        yield "response.completed", {"response": self.whole(answer, request)}, False

    def _said(self, text: str, where: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], bool]]:
        yield "response.content_part.added", {**where, "part": self._text("")}, False
        for word in words_of(text):
            yield "response.output_text.delta", {**where, "delta": word, "logprobs": []}, True
        yield "response.output_text.done", {**where, "text": text, "logprobs": []}, False
        yield "response.content_part.done", {**where, "part": self._text(text)}, False

    def _text(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": []}

    def _item(self, part: str | Call, request: Request, status: str) -> dict[str, Any]:
        if isinstance(part, str):
            own = {"type": "message", "role": "assistant", "content": [self._text(part)]}
            return {"id": f"msg_{len(request.turns)}", "status": status, **own}
        item = {
            "type": "function_call",
            "id": f"fc_{part.id}",
            "call_id": part.id,
            "name": part.tool,
            "arguments": json.dumps(part.arguments),
            "status": status,
        }
        return item if part.space is None else {**item, "namespace": part.space}

    def _response(
        self, request: Request, status: str, items: list[dict[str, Any]], answer: Answer | None
    ) -> dict[str, Any]:
        return {
            "id": f"resp_{len(request.turns)}",
            "object": "response",
            "created_at": _MADE,
            "status": status,
            "model": request.model,
            "output": items,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "usage": None if answer is None else self._usage(answer),
        }

    def _usage(self, answer: Answer) -> dict[str, Any]:
        used, made = answer.usage
        details = {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        return {"input_tokens": used, "output_tokens": made, "total_tokens": used + made, **details}
