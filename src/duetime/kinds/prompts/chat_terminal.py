"""Terminal output of a conversation. Control characters from a model or a tool are shown, never interpreted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from duetime.terminal import output
from duetime.terminal.output import clean, plural

if TYPE_CHECKING:
    from duetime.kinds.prompts.agents.builtin import ChatAnswer, WaitingPrompt
    from duetime.kinds.prompts.agents.model_turn import ToolCall

PROMPT = "> "
LEAVE = ("/quit", "/exit")
SHOWN = 5
"""Due prompts that are listed at the beginning."""


class Terminal:
    def __init__(self, *, quiet: bool = False, aside: TextIO | None = None) -> None:
        """`quiet` suppresses answers as they arrive; `aside` receives the lines that are not part of the answer."""
        self._quiet = quiet
        self._console = output.console()
        if aside is not None:
            self._console.file = aside
        self._in_line = False

    def greet(self, session: str, model: str, waiting: Sequence[WaitingPrompt]) -> None:
        self._dim(f"{model}, conversation {session!r}")
        self._dim(f"Ctrl-C stops an answer; Ctrl-D or {LEAVE[0]} ends.")
        if not waiting:
            return
        print(f"{plural(len(waiting), 'due prompt')} waiting for an agent:")
        for each in waiting[:SHOWN]:
            print(f"  #{each.task}  {clean(each.due)}  {clean(each.prompt)}")
        if len(waiting) > SHOWN:
            print(f"  and {len(waiting) - SHOWN} more")

    def ask(self) -> str | None:
        """Return what the person says next, or None to end the conversation."""
        with suppress(ImportError):
            import readline  # noqa: F401 - gives `input` line editing and a history
        while True:
            try:
                text = input(PROMPT if sys.stdin.isatty() else "").strip()
            except (EOFError, KeyboardInterrupt) as ended:
                if sys.stdin.isatty():
                    print()  # the cursor is still behind the prompt
                if isinstance(ended, KeyboardInterrupt):
                    raise
                return None
            if text in LEAVE:
                return None
            if text:
                return text

    def show_event(self, news: str | ToolCall) -> None:
        """Show a part of the answer or a tool call. ToolCall from the conversation's thread, one at a time."""
        from duetime.kinds.prompts.agents.model_turn import ToolCall

        if self._quiet:
            return
        if isinstance(news, ToolCall):
            self._break()
            mark = "failed: " if news.failed else ""
            self._dim(f"  {news.name} {news.arguments} -> {mark}{news.result}")
        elif news:
            sys.stdout.write(_readable(news))
            sys.stdout.flush()
            self._in_line = not news.endswith("\n")

    def end(self, said: ChatAnswer) -> None:
        self._break()
        if self._quiet:
            return
        if said.stopped:
            self._dim("(stopped)")
        if said.error is not None:
            print(f"duetime: {clean(said.error)}", file=sys.stderr, flush=True)

    def _break(self) -> None:
        if self._in_line:
            print(flush=True)
            self._in_line = False

    def _dim(self, line: str) -> None:
        """Print one dimmed line, whatever it contains."""
        terminal = self._console.is_terminal
        text: Any = output.safe(line, "dim")
        self._console.print(text, no_wrap=terminal, overflow="ellipsis", crop=terminal, soft_wrap=not terminal)


def _readable(text: str) -> str:
    """Keep line breaks; escape everything else that could move the cursor."""
    return "\n".join(clean(line) for line in text.expandtabs(4).split("\n"))
