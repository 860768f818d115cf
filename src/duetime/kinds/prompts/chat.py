"""`duetime chat`: a conversation in the terminal with an agent that has Duetime's tools."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO

from duetime.engine.clock import Instant, SystemClock
from duetime.engine.errors import InvalidInput
from duetime.security.private_files import make_private, read_private, replace_private
from duetime.service.errors import FAILED, INTERRUPTED, OK
from duetime.service.vocabulary import clock_local, iso_local
from duetime.terminal import output
from duetime.terminal.context import Db, Json, Tasks, settings_for
from duetime.terminal.declarations import Exit, option, single
from duetime.terminal.output import clean, plural

if TYPE_CHECKING:
    from duetime.kinds.prompts.agents.builtin import ChatAnswer, Conversation, WaitingPrompt
    from duetime.kinds.prompts.agents.model_turn import ToolCall
    from duetime.settings import Settings


USUAL = "main"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Session(NamedTuple):
    name: str
    updated: Instant
    first: str
    """The first question."""
    messages: list[Any]


class ChatSessions:
    """Conversations on disk: one private file each, which is replaced atomically."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, text: str, messages: Sequence[Any], now: Instant) -> None:
        """Append to what is stored by now, because a second terminal may be in the same conversation."""
        past = self.read(name)
        document = {"updated": now, "first": (past.first or text)[:200], "messages": [*past.messages, *messages]}
        make_private(self._folder)
        replace_private(self._path(name), json.dumps(document))

    def all(self) -> list[Session]:
        """Return all conversations, the latest first."""
        names = [path.stem for path in self._folder.glob("*.json") if _NAME.fullmatch(path.stem)]
        return sorted(map(self.read, names), key=lambda session: session.updated, reverse=True)

    def new(self, day: str) -> str:
        """Return a name that no conversation has."""
        taken = {path.stem for path in self._folder.glob("*.json")}
        numbered = (f"{day}-{number}" for number in range(1, len(taken) + 2))
        return next(name for name in numbered if name not in taken)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            message = f"--session: {name[:60]!r} is not a valid name; use letters, digits, dots, dashes and underscores"
            raise InvalidInput(message, field="session")
        return self._folder / f"{name}.json"

    def read(self, name: str) -> Session:
        """Return a conversation, which is empty if it has not begun."""
        path = self._path(name)
        text = read_private(path)
        if text is None:
            return Session(name, Instant(0), "", [])
        try:
            document = json.loads(text)
            return Session(name, Instant(int(document["updated"])), str(document["first"]), list(document["messages"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path} is not a conversation; move it away, or choose another --session") from error


commands = single()


@commands.command()
def chat(
    session: Annotated[str | None, option("--session NAME", "Conversation to continue.")] = None,
    new: Annotated[bool, option("--new", "Start a new conversation.")] = False,
    list_: Annotated[bool, option("--list", "List the conversations.")] = False,
    once: Annotated[str | None, option("--once TEXT", "Send this, print the answer and exit.")] = None,
    model: Annotated[str | None, option("--model MAKER:NAME", "Model to use; by default that of the settings.")] = None,
    db: Db = None,
    tasks: Tasks = None,
    json_: Json = False,
) -> None:
    """Talk to an agent that schedules things for you. Ctrl-C stops an answer; at the prompt it ends the
    conversation."""
    from duetime.settings import data_folder

    settings = settings_for({"db": db, "tasks": tasks, "model": model})
    sessions = ChatSessions(data_folder() / "chats")
    if list_:
        _list(sessions, settings, json_)
        return
    if json_ and once is None:
        raise InvalidInput("--json: requires --once or --list")
    if new and session is not None:
        raise InvalidInput("--new: chooses a name itself; leave out --session")
    name = sessions.new(iso_local(SystemClock().now(), "UTC")[:10]) if new else session or USUAL
    chatting = Chat(settings, sessions, name)
    raise Exit(chatting.once(once, json_) if once is not None else chatting.converse())


class Chat:
    def __init__(self, settings: Settings, sessions: ChatSessions, name: str) -> None:
        from duetime.settings import local_zone

        self._settings, self._sessions, self._name = settings, sessions, name
        self._clock, self._zone = SystemClock(), local_zone(settings)

    def once(self, text: str, json_: bool) -> int:
        """Ask one question and print only the answer, so that a script can use it."""
        terminal = Terminal(quiet=json_, aside=sys.stderr)
        with self._open() as conversation:
            answer = self._say(conversation, text, terminal)
        if json_:
            document = {
                "session": self._name,
                "text": answer.turn.text,
                "tool_calls": answer.turn.view(),
                "earlier_calls": answer.turn.earlier_calls,
                "usage": asdict(answer.turn.spent),
                "error": "stopped" if answer.stopped else answer.error,
            }
            output.print_json(document)
        return INTERRUPTED if answer.stopped else OK if answer.error is None else FAILED

    def converse(self) -> int:
        # Python sets no handler if SIGINT was ignored by the parent, as in the background of a script.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        terminal = Terminal()
        with self._open() as conversation:
            terminal.greet(self._name, self._settings.model, conversation.waiting)
            while (text := terminal.ask()) is not None:
                self._say(conversation, text, terminal)
        return OK

    def _open(self) -> Conversation:
        from duetime.kinds.prompts.access import stdio_access
        from duetime.kinds.prompts.agents.builtin import Conversation, messages_from_json

        messages = self._sessions.read(self._name).messages
        access = stdio_access(self._settings)  # a server of our own works, whatever else is running
        conversation = Conversation(self._settings.model, access, self._clock, self._zone)
        try:
            conversation.resume(messages_from_json(messages))
        except ValueError as error:
            message = f"the conversation {self._name!r} cannot be read by this version; begin a new one with --new"
            raise InvalidInput(message, field="session") from error
        return conversation

    def _say(self, conversation: Conversation, text: str, terminal: Terminal) -> ChatAnswer:
        from duetime.kinds.prompts.agents.builtin import messages_to_json

        answer = conversation.ask(text, terminal.show_event)
        if answer.turn.messages:
            self._sessions.add(self._name, text, messages_to_json(answer.turn.messages), self._clock.now())
        terminal.end(answer)
        return answer


def _list(sessions: ChatSessions, settings: Settings, json_: bool) -> None:
    from duetime.settings import local_zone

    zone = local_zone(settings)
    conversations = sessions.all()
    if json_:
        rows = [
            {"session": each.name, "updated": iso_local(each.updated, zone), "messages": len(each.messages),
             "first": each.first}
            for each in conversations
        ]  # fmt: skip
        output.print_json({"sessions": rows, "count": len(rows)})
    elif not conversations:
        print("There is no conversation yet.")
    else:
        cells = [(each.name, clock_local(each.updated, zone), len(each.messages), each.first) for each in conversations]
        output.table(["SESSION", "LAST", "MESSAGES", "BEGAN WITH"], cells, whole=2)


# Terminal output of a conversation. Control characters from a model or a tool are shown, never interpreted.

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
            author = f"  (stored by {clean(each.author)})" if each.author.startswith("an agent's run") else ""
            print(f"  #{each.task}  {clean(each.due)}  {clean(each.prompt)}{author}")
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
        """Show a part of the answer or a tool call. The conversation's thread calls this, one event at a time."""
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

    def end(self, answer: ChatAnswer) -> None:
        self._break()
        if self._quiet:
            return
        if answer.stopped:
            self._dim("(stopped)")
        if answer.error is not None:
            print(f"duetime: {clean(answer.error)}", file=sys.stderr, flush=True)

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
