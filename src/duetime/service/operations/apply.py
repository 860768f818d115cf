"""Applies a file of schedules: compares it with the store, and creates, changes and removes what differs.

The key of a schedule that a file made has the name of the file and the path of the entry, so that no other file touches
it. An entry may instead name the id of a schedule that is there already; the file owns it from its first change on.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple

from duetime.engine.actor import FILE, FILE_KEYS, Actor
from duetime.engine.encoding import json_object
from duetime.engine.errors import Conflict, InvalidInput, NotFound, Refused, TimePassed
from duetime.engine.fingerprint import is_same_request
from duetime.engine.kind import LOCAL
from duetime.engine.model import FOLLOWED, OVER, Definition, Followed, Schedule, ScheduleState
from duetime.engine.policy.batches import place_of
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.rows import Draft
from duetime.engine.redaction import MASK, MIN_SECRET_LENGTH, map_texts, texts_in, without_values
from duetime.engine.times.zones import known_zone
from duetime.engine.validation import Changes, NewSchedule
from duetime.service.errors import refuse
from duetime.service.masking import masked, masked_payload
from duetime.service.operations.change import describe_followers
from duetime.service.operations.create import changes_to, rule_as_of
from duetime.service.operations.declaration import Answer
from duetime.service.options import policy_options, time_options
from duetime.service.presenters import policy_shape, reads_as, source_view, source_warnings, trigger_shape
from duetime.service.schedule_files import FileEntry, new_of
from duetime.service.services import Call
from duetime.service.text import compact
from duetime.service.warnings import ScheduleWarning
from duetime.service.when import with_cron_fault

MAX_PART: Final = 1000
"""Number of schedules that one transaction creates, changes and removes."""
MAX_FILE_NAME: Final = 60
_ATTEMPTS: Final = 10
"""How often a part is planned again because somebody else changed the same schedules meanwhile."""
_MOST_PROBLEMS: Final = 5
_NONE: Final = (None, None)


class FileChange(NamedTuple):
    """What is done about one schedule."""

    action: str
    """`create`, `change` or `remove`."""
    path: str
    kind: str
    name: str
    id: str | None
    reads_as: str
    differences: Sequence[Mapping[str, Any]] = ()
    """Of a change: each `field` with its values `before` and `after`, without credentials."""


class ApplyFile(NamedTuple):
    """A file of schedules, with everything that it refers to filled in."""

    name: str
    """Identifies the file, also after it has moved."""
    entries: Sequence[FileEntry]
    owner: str = LOCAL
    prune: bool = False
    """Whether schedules that the file made, and does not contain any more, are deleted."""
    dry_run: bool = False
    is_named: bool = True
    """Whether the file itself contains the name; otherwise, another file may have the same one."""
    variable_texts: frozenset[str] = frozenset()
    """Values of the environment and the texts that contain them, which the plan hides."""
    expected: Sequence[FileChange] | None = None
    """The changes that a person has confirmed; if others are needed by now, nothing is changed."""


class FilePlan(NamedTuple):
    changes: Sequence[FileChange]
    unchanged: int


class FileStep(NamedTuple):
    """A change with the rows that it writes."""

    change: FileChange
    draft: Draft | None = None
    schedule: Schedule | None = None
    """The stored schedule that is edited or, without an edit, deleted."""
    edit: Edit | None = None


_CHANGED: Final = "the schedules changed in the meantime; look at the plan again"


def apply(call: Call, request: ApplyFile) -> Answer[FilePlan]:
    """Make the schedules of a file what it says, in transactions of at most `MAX_PART`. A dry run only says what would
    be done. After a failure, the same request goes on with what is left."""
    if not call.caller.operator:
        raise refuse("operators_only", "only an operator applies files; ask one to do it, or create single schedules")
    if not 0 < len(request.name) <= MAX_FILE_NAME or not request.name.isprintable() or ":" in request.name:
        rule = f"a name must have at most {MAX_FILE_NAME} characters, and no colon"
        raise refuse("invalid_file", f'{rule}; write name = "nightly" below [duetime]')
    if request.prune and not request.is_named:
        problem = "--prune needs a name in the file: other files called the same would lose their schedules"
        lines = f"[duetime] and name = {json.dumps(request.name, ensure_ascii=False)}"
        raise refuse("invalid_file", f"{problem}; begin it with the lines {lines}, or a name that no other file has")
    actor = Actor(FILE, request.name, call.caller.actor.interface)
    call = call._replace(caller=call.caller._replace(owner=request.owner, actor=actor))
    planner = _FilePlanner(call, request)
    changes = [each.change for each in planner.steps]
    if request.expected is not None and changes != list(request.expected):
        raise refuse("changed", _CHANGED)
    if not request.dry_run:
        _carry_out(call, request, planner.steps)
    return Answer(FilePlan(changes, planner.unchanged), planner.warnings, planner.notes)


def _carry_out(call: Call, request: ApplyFile, steps: Sequence[FileStep]) -> None:
    """Carry out the steps in parts. What another process has changed meanwhile is planned again."""
    finished, attempts = set[tuple[str, ...]](), _ATTEMPTS
    while steps:
        part = steps[:MAX_PART]
        edits = {each.schedule.definition.id: each.edit for each in part if each.schedule and each.edit}
        deletions = [each.schedule.definition for each in part if each.schedule and not each.edit]
        try:
            call.scheduler.carry_out(call.caller, [each.draft for each in part if each.draft], edits, deletions)
        except (Conflict, NotFound) as error:
            attempts -= 1
            if error.code not in (Conflict.code, NotFound.code) or not attempts:
                raise
        else:
            finished |= {each.change[:2] for each in part}
            if len(steps) <= MAX_PART:
                return
        steps = [each for each in _FilePlanner(call, request).steps if each.change[:2] not in finished]
        if request.expected is not None and any(each.change not in request.expected for each in steps):
            raise refuse("changed", _CHANGED)


class _FilePlanner:
    """Compares a file with the store. Whatever is wrong with the file is raised together, for all of its entries."""

    def __init__(self, call: Call, request: ApplyFile) -> None:
        self._call, self._request, self._prefix = call, request, f"{FILE_KEYS}{request.name}:"
        self.steps: list[FileStep] = []
        self.unchanged = 0
        self.warnings: list[ScheduleWarning] = []
        self.notes: list[str] = []
        self._number = 0
        self._problems: list[str] = []
        self._followable: dict[str, Followed] = {}
        self._left_alone: set[str] = set()
        self._variable_texts = {*request.variable_texts, *map(masked, request.variable_texts)}
        known = {each.definition.key: each for each in call.scheduler.store.by_key_prefix(request.owner, FILE_KEYS)}
        self._stored = {key: each for key, each in known.items() if key.startswith(self._prefix)}
        self._others = {key.split(":", 2)[2]: key.split(":", 2)[1] for key in known.keys() - self._stored.keys()}
        self._entries = {each.path: each for each in request.entries}
        paths = {key.removeprefix(self._prefix): each for key, each in self._stored.items()}
        self._left = {path: paths[path] for path in sorted(paths.keys() - self._entries.keys())}
        self._removals = {each.definition.id: path for path, each in self._left.items() if request.prune}
        self._plan()

    def _plan(self) -> None:
        news: dict[str, NewSchedule] = {}
        for path, entry in self._entries.items():
            with self._about(path):
                news[path] = new_of(self._call, entry, self._prefix + path)
        chains = self._chains(news)
        order = TopologicalSorter({path: [each] if each else [] for path, each in chains.items()})
        try:
            for path in order.static_order():  # those that others follow come first
                if (followed := chains[path]) in self._left_alone:
                    self._leave_alone(path, f"{path} follows {followed}, so it stays as it is.")
                    continue
                with self._about(path):
                    self._compare(self._entries[path], self._with_followed(news[path], followed))
        except CycleError as error:
            circle = " follows ".join(reversed(error.args[1]))
            self._problems.append(f"{circle}: that is a circle; let one of them start in another way")
        if self._problems:
            message = "; ".join(self._problems[:_MOST_PROBLEMS])
            raise refuse("invalid_file", message, details={"problems": self._problems})
        known = {each.definition.id for each in self._stored.values()} | {each[0] for each in self._followable.values()}
        for path in self._removals.values():
            self._remove(path, self._left[path])
            if text := describe_followers(self._call, self._left[path], "delete", known):
                self.notes.append(f"{path}: {text}.")
        if self._left and not self._request.prune:
            self.notes.append(f"No longer in the file, but kept: {', '.join([*self._left][:9])}; --prune deletes them.")

    @contextmanager
    def _about(self, path: str) -> Iterator[None]:
        """Collect what is wrong with an entry."""
        try:
            yield
        except Refused as error:
            is_advised = error.code == "unknown_task"  # whose problem contains the hint
            problem = with_cron_fault(error.problem if is_advised else error.message).rstrip(".")
            self._problems.append(f"{path}: {problem}{_similar_option(error)}")

    def _chains(self, news: Mapping[str, NewSchedule]) -> dict[str, str | None]:
        """Return the entry that each entry follows, which it names by its heading, its name or its id; None if it
        follows a schedule outside of the file, or none at all."""
        paths, chains = defaultdict[str, list[str]](list), dict[str, str | None]()
        for path, new in news.items():
            for name in {path, self._entries[path].name, new.name, self._entries[path].values.get("id")}:
                paths[str(name)].append(path)
        for path, new in news.items():
            text = str(new.trigger_config.get("schedule")) if new.trigger_type == "after" else ""
            matches = [text] if text in news else paths.get(text, [None])
            chains[path] = matches[0]
            if len(matches) > 1:
                self._problems.append(f"{path}: {text!r} could be {' or '.join(map(str, matches))}; write one of these")
        return chains

    def _with_followed(self, new: NewSchedule, path: str | None) -> NewSchedule:
        if path is None:
            config = self._call.scheduler.with_followed(self._call.caller, new.trigger_type, new.trigger_config)
            if left := self._removals.get(config.get(FOLLOWED, _NONE)[0]):
                advice = f"let it start in another way, or keep {left} in the file"
                raise InvalidInput(f"it follows {left}, which prune would delete; {advice}")
        elif path in self._followable:
            config = {**new.trigger_config, FOLLOWED: self._followable[path]}
        else:
            raise InvalidInput(f"it follows {path}, which cannot be applied")
        return new._replace(trigger_config=config)

    def _compare(self, entry: FileEntry, new: NewSchedule) -> None:
        """Add the steps that make the schedule of an entry what the entry says, if it is not."""
        path, schedule = entry.path, self._schedule_of(entry)
        if schedule is None:
            try:
                self._create(path, new)
            except TimePassed:
                self._leave_alone(path, f"The time of {path} has passed, so it is not created.")
                return
            if name := self._others.get(path):
                advice = f'if this is the same file, write name = "{name}" below [duetime]'
                self.notes.append(f"The file {name} also has {path}; {advice}.")
            return
        definition, state = schedule.definition, schedule.progress.state
        is_same = is_same_request(definition.fingerprint, new, self._call.services.zone)
        self._followable[path] = Followed(definition.id, definition.public_id, new.name)
        if state == ScheduleState.CANCELLED:
            self.notes.append(f"{path} was cancelled and stays so; restore it, or delete it and apply the file again.")
        elif state not in OVER and _has_begun(schedule):
            self.notes.extend([] if is_same else [f"{path} has begun, so it stays as it is."])
        elif state in OVER and not is_same and definition.key.startswith(self._prefix):
            self._remove(path, schedule)
            self._create(path, new)
            return
        elif state not in OVER and not (is_same and definition.version == 1 and new.trigger_type != "after"):
            self._edit(path, new, schedule, is_same=is_same)
            return
        self.unchanged += 1

    def _schedule_of(self, entry: FileEntry) -> Schedule | None:
        schedule, id = self._stored.get(self._prefix + entry.path), entry.values.get("id")
        if schedule is None and id is not None:
            schedule = self._call.scheduler.find(self._call.caller, str(id).partition("@")[0], entry.kind)
            definition = None if schedule is None else schedule.definition
            if definition is None or definition.owner != self._request.owner or id != definition.reference:
                return None  # the file comes from another store
        return schedule

    def _leave_alone(self, path: str, note: str) -> None:
        self._left_alone.add(path)
        self.notes.append(note)
        self.unchanged += 1

    def _create(self, path: str, new: NewSchedule) -> None:
        refusal = self._call.services.hooks(new.kind).outside().refusal()
        if refusal is not None:
            raise refusal
        [draft] = self._call.scheduler.drafts(self._call.caller, [new])
        self._followable[path] = place_of(draft.definition, self._number)
        self._number += 1
        self.steps.append(FileStep(self._change("create", path, draft.definition), draft))

    def _remove(self, path: str, schedule: Schedule) -> None:
        change = self._change("remove", path, schedule.definition)._replace(id=schedule.definition.public_id)
        self.steps.append(FileStep(change, schedule=schedule))

    def _change(self, action: str, path: str, definition: Definition) -> FileChange:
        texts = definition.name, reads_as(definition.trigger)
        values = [each for each in self._variable_texts if len(each) >= MIN_SECRET_LENGTH and each in "\n".join(texts)]
        name, times = (without_values(each, values) for each in texts)
        return FileChange(action, path, definition.kind, masked(name), None, times)

    def _edit(self, path: str, new: NewSchedule, schedule: Schedule, *, is_same: bool) -> None:
        call, stored = self._call, schedule.definition
        target, changes = stored, Changes()
        try:
            target = call.scheduler.drafts(call.caller, [new])[0].definition
            changes = changes_to(call.services, stored, target, new, is_same=is_same)
        except InvalidInput as error:
            if not is_same:  # otherwise, its time has passed since it was written
                zone = known_zone(new.timezone or call.services.zone).key
                rule = rule_as_of(new, zone, stored.created) if isinstance(error, TimePassed) else None
                if rule != json_object(stored.trigger):
                    raise
                self.notes.append(f"The time of {path} has passed, so it stays as it is.")
        parts = {"name": changes.name, "trigger": changes.trigger_type, "policy": changes.policy}
        parts |= {"payload": changes.payload, "subject": changes.payload}
        texts = {each: getattr(target, each) for each, part in parts.items() if part is not None}
        if not texts:
            self.unchanged += 1
            return
        if stored.key.startswith("~"):  # which nobody else knows
            texts["key"] = self._prefix + path
        elif not stored.key.startswith(self._prefix):
            self.warnings += source_warnings(stored)
        amid_runs = call.services.hooks(stored.kind).adapt_edit(call.caller, schedule, changes).amid_runs
        patch = Edit(version=stored.version, amid_runs=amid_runs, fingerprint=target.fingerprint, **texts)
        differences = list(_differences(stored, stored._replace(**texts), self._variable_texts))
        change = self._change("change", path, target)._replace(id=stored.public_id, differences=differences)
        self.steps.append(FileStep(change, None, schedule, patch._replace(rewrites="payload" in texts)))


def _has_begun(schedule: Schedule) -> bool:
    """Return whether it is a one-off whose run has not ended."""
    progress = schedule.progress
    is_due = progress.next is None and bool(progress.active or progress.queued)
    return is_due and trigger_shape(schedule.definition.trigger)["type"] == "once"


def _similar_option(error: Refused) -> str:
    """Return the option that an unknown field of an entry may mean, as the rest of a sentence."""
    if error.field is None or "has no such field" not in error.message:
        return ""
    from difflib import get_close_matches  # only an error needs it

    names = get_close_matches(error.field, [*time_options(), *policy_options()], 1)
    return f"; did you mean the option {names[0]}?" if names else ""


def _differences(before: Definition, after: Definition, variable_texts: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield what a change does to each field, as every interface shows it: without credentials."""
    old, new = _facts(before), _facts(after)
    for name in dict.fromkeys([*old, *new]):
        (raw, view), (new_raw, new_view) = old.get(name, _NONE), new.get(name, _NONE)
        if raw != new_raw:
            view, new_view = _without_variables(view, new_view, variable_texts)
            new_view = f"{compact(view)} (changed)" if view == new_view else new_view
            yield {"field": name, "before": view, "after": new_view}


def _without_variables(before: Any, after: Any, variable_texts: Collection[str]) -> tuple[Any, Any]:
    """Return a field without texts that were filled in from the environment, nor those that they may replace."""

    def hide(_: str, text: str) -> str:
        has_variable = text in variable_texts or any(
            len(each) >= MIN_SECRET_LENGTH and each in text for each in variable_texts
        )
        return MASK if has_variable else text

    view = map_texts(after, hide)
    texts = {text for _, text in texts_in(before if view == after else view)}
    return map_texts(before, lambda name, text: hide(name, text) if text in texts else MASK), view


def _facts(definition: Definition) -> dict[str, tuple[str | None, Any]]:
    """Return each field as it is stored, to compare it, and as it is shown."""
    payload = json_object(definition.payload) or {}
    views = {**masked_payload(definition.kind, payload), **(policy_shape(definition.policy) or {})}
    texts = {"name": definition.name, "when": definition.trigger, "source": definition.key}
    own = masked(definition.name), reads_as(definition.trigger), source_view(definition.key)
    facts = {name: (text, view) for (name, text), view in zip(texts.items(), own, strict=True)}
    return facts | {name: (repr(payload.get(name, view)), view) for name, view in views.items()}
