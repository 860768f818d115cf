"""Gemini's generateContent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.model_wire import Answer, Call, Dialect, Entry, Event, Request, parts_of, text_of, words_of


class Gemini(Dialect):
    name = "gemini"
    path = "/models/"

    def counts(self, path: str) -> bool:
        return path.endswith(":countTokens")

    def model(self, path: str, body: Mapping[str, Any]) -> str:
        return path.partition("/models/")[2].partition(":")[0]

    def streams(self, path: str, body: Mapping[str, Any]) -> bool:
        return ":streamGenerateContent" in path

    def entries(self, body: Mapping[str, Any]) -> Iterator[Entry]:
        yield Entry("system", text_of((body.get("systemInstruction") or {}).get("parts")))
        for content in body.get("contents", ()):
            for part in content.get("parts", ()):
                if "functionCall" in part:
                    yield Entry("model", tool=part["functionCall"]["name"])
                elif "functionResponse" in part:
                    given = part["functionResponse"].get("response", {})
                    inner = given.get("output", given.get("return_value", given.get("result", given)))
                    text = inner if isinstance(inner, str) else json.dumps(inner)
                    yield Entry("tool", text, part["functionResponse"]["name"], "error" in given)
                elif "text" in part:
                    yield Entry(content.get("role") or "user", part["text"])

    def offered(self, body: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
        for tool in body.get("tools") or ():
            for declared in tool.get("functionDeclarations", ()):
                yield declared["name"], declared.get("description", ""), None

    def whole(self, answer: Answer, request: Request) -> dict[str, Any]:
        return self._response([self._part(part) for part in parts_of(answer)], answer, request)

    def events(self, answer: Answer, request: Request) -> Iterator[Event]:
        parts: list[str | Call] = [*words_of(answer.text), *answer.calls]
        *before, last = parts or [""]
        for part in before:
            yield Event(self._response([self._part(part)], None, request), is_word=isinstance(part, str))
        yield Event(self._response([self._part(last)], answer, request), is_word=isinstance(last, str))

    def _part(self, part: str | Call) -> dict[str, Any]:
        if isinstance(part, str):
            return {"text": part}
        return {"functionCall": {"id": part.id, "name": part.tool, "args": part.arguments}}

    def _response(self, parts: list[dict[str, Any]], answer: Answer | None, request: Request) -> dict[str, Any]:
        """Return a response; the last one of a stream is marked as such, and contains the usage."""
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        head = {"modelVersion": request.model, "responseId": f"gemini_{len(request.turns)}"}
        if answer is None:
            return {"candidates": [candidate], **head}
        used, made = answer.usage
        usage = {"promptTokenCount": used, "candidatesTokenCount": made, "totalTokenCount": used + made}
        return {"candidates": [{**candidate, "finishReason": "STOP"}], "usageMetadata": usage, **head}
