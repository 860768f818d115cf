"""A channel through Apprise, which supports many services. It reports only success or failure, without a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

from duetime.engine.outcome import Completed, Outcome, Retry
from duetime.kinds.notifications.delivery import OutgoingMessage
from duetime.net.helper_threads import Abandoned, Helpers, NoneFree
from duetime.net.host_limits import Hosts, Sign, Tried
from duetime.net.outcomes import not_tried, silence_logs

_ALARMING = frozenset({"rotating_light", "x", "no_entry", "skull", "fire"})
_PLEASING = frozenset({"white_check_mark", "heavy_check_mark", "tada", "+1"})
_CUT = " … (cut)"
_TITLE_OVERHEAD = 32
"""Characters added to a title that is sent as part of the body: marks, line ends, tags."""
_OWN_OVERFLOW = re.compile(r"[?&]overflow=", re.IGNORECASE)
_helpers = Helpers()


class AppriseChannel:
    def __init__(self, name: str, url: str, hosts: Hosts) -> None:
        self._name, self._url, self._hosts = name, url, hosts

    @cached_property
    def problem(self) -> str | None:
        """Return what is wrong with the settings. This loads the package on first use, because most commands send
        nothing."""
        where = f"channels.{self._name}"
        if not self._url:
            return f"{where}: it has no url"
        try:
            import apprise
        except ImportError:
            return f"{where}: its url needs Apprise; install it with: pip install 'duetime[channels]'"
        with silence_logs():
            try:
                service = self._service(apprise)
            except Exception as error:  # its message may quote the address
                return f"{where}: Apprise cannot load what its url needs ({type(error).__name__})"
        if service is None:
            return f"{where}: Apprise does not understand its url; compare it with Apprise's list of services"
        return None

    def _service(self, apprise: ModuleType) -> Any:
        """Create a service for one attempt, because it contains timeouts and is not thread-safe."""
        asset = apprise.AppriseAsset(storage_mode="memory", service_timeout=0)
        return apprise.Apprise.instantiate(self._url, asset=asset)

    def deliver(self, outgoing: OutgoingMessage) -> Outcome:
        return self._hosts.pass_(f"channel {self._name}", lambda: self._tried(outgoing), outgoing.owner)

    def _tried(self, outgoing: OutgoingMessage) -> Tried:
        """Attempt a delivery in a helper thread with one overall deadline, because Apprise's timeouts apply to each
        read and step."""
        try:
            arrived, cut = _helpers.run(lambda: self._notify(outgoing), outgoing.patience, outgoing.owner)
        except NoneFree:
            reason = f"channel {self._name} was not asked, because too many channels hang; check those that fail"
            return Tried(not_tried(reason), Sign.NONE)
        except Abandoned:
            reason = f"channel {self._name} did not take it within {outgoing.patience:g} s"
            return Tried(Retry(reason), Sign.FAILED)
        if not arrived:
            return Tried(Retry(f"channel {self._name} did not take it; Apprise does not say why"), Sign.FAILED)
        result = {"channel": self._name, **({"cut": True} if cut else {})}
        return Tried(Completed(json.dumps(result)), Sign.ANSWERED)

    def _notify(self, outgoing: OutgoingMessage) -> tuple[bool, bool]:
        """Return whether the service accepted the message, and whether it had to be cut."""
        import apprise

        fields = outgoing.fields
        written_in = "markdown" if fields.get("markdown") else "text"
        with silence_logs():
            try:
                service = self._service(apprise)
                service.socket_connect_timeout = min(service.socket_connect_timeout, outgoing.patience)
                service.socket_read_timeout = min(service.socket_read_timeout, outgoing.patience)
                text, title = text_of(fields), fields.get("title", "")
                body = text
                if not _OWN_OVERFLOW.search(self._url):  # by default, Apprise lets the service refuse long texts
                    service.overflow_mode = apprise.OverflowMode.TRUNCATE
                    body = shorten_to_fit(apprise, service, text, title, written_in)
                sender = apprise.Apprise(service, asset=service.asset)
                arrived = sender.notify(body=body, title=title, notify_type=type_of(fields), body_format=written_in)
                return bool(arrived), body != text
            except Exception:  # its message may quote the address, so it is not kept
                return False, False


def shorten_to_fit(apprise: ModuleType, service: Any, text: str, title: str, written_in: str) -> str:
    """Return as much of the text as the service accepts, with a mark if it was cut. The text is cut before it is
    converted, so that no tag is split, but its length is measured afterwards."""
    lines = text.splitlines(keepends=True)
    most_lines = service.body_max_line_count or len(lines)
    beginning = "".join(lines[:most_lines])
    body = text if beginning == text else beginning.rstrip() + _CUT
    room = service.body_maxlen
    if title and (service.title_maxlen <= 0 or service.overflow_amalgamate_title):
        room -= len(title) + _TITLE_OVERHEAD
    shown_in = service.resolve_format(written_in)
    while beginning and (length := len(apprise.conversion.convert_between(written_in, shown_in, body))) > room:
        beginning = beginning[: max(0, min(len(beginning) * room // length, len(beginning) - len(_CUT)))]
        body = beginning.rstrip() + _CUT
    return body


def text_of(fields: Mapping[str, Any]) -> str:
    """Return the message with links as text, because Apprise would fetch attachments itself, from any address that an
    agent gave."""
    links = [("", fields.get("click")), (fields.get("filename", "Attachment"), fields.get("attach"))]
    links += [(action["label"], action["url"]) for action in fields.get("actions", ()) if action["action"] == "view"]
    lines = [f"{label}: {url}" if label else url for label, url in links if url]
    return "\n".join([fields["message"], *([""] if lines else []), *lines])


def type_of(fields: Mapping[str, Any]) -> str:
    """Return the type that determines the colour of a message in Apprise."""
    tags, priority = set(fields.get("tags", ())), fields.get("priority", 3)
    if priority >= 5 or tags & _ALARMING:
        return "failure"
    if priority == 4 or "warning" in tags:
        return "warning"
    return "success" if tags & _PLEASING else "info"
