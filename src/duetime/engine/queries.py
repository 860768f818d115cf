"""Read access to schedules and runs: callers see their own, operators see everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from duetime.engine.clock import NEVER, Clock, Instant
from duetime.engine.encoding import is_text, json_object
from duetime.engine.errors import InvalidInput, NotFound
from duetime.engine.kind import Caller, Kind
from duetime.engine.limits import Limits
from duetime.engine.model import (
    FOLLOWED,
    Cause,
    Definition,
    Run,
    RunId,
    Schedule,
    ScheduleId,
    ScheduleState,
)
from duetime.engine.policy.incidents import IncidentRow
from duetime.engine.redaction import masked, redacted_result
from duetime.engine.scopes import WRITE, Scopes, check, of_group
from duetime.engine.store import PAGE_BYTES, Page, RunInput, RunQuery, ScheduleQuery, Store
from duetime.engine.triggers import Trigger, build_trigger, describe, known_zone, warnings_for
from duetime.engine.triggers.step_budget import CREATION_STEPS, TooManySteps, budgeted, step_budget
from duetime.engine.validation import Drafter
from duetime.engine.value_class import NamedTuple, pattern

Q = TypeVar("Q", ScheduleQuery, RunQuery)


def no_schedule(**details: object) -> NotFound:
    return NotFound("there is no such schedule", details=details)


def no_run(**details: object) -> NotFound:
    return NotFound("there is no such run", details=details)


MOST_NAMED = 5
"""Number of candidates that an error names."""
_COMPARED = 500
"""Number of latest schedules whose names are compared with a mistyped one."""
_NUMBER = pattern(r"#?([0-9]{1,18})")
_NUMBERED = pattern(r"[a-z]+_([0-9]{1,18})")
"""The beginning of an id that contains the number, such as job_5 of job_5_1770000000."""
_REFERENCE = pattern(r"([0-9]{1,18})@[0-9]+")
"""A number with when the schedule was created."""
_SHORT = pattern(r"([a-z])([0-9]{1,18})")
"""A short id: the first letter of the kind and the number."""
_BEGINNING = pattern(r"[a-z]+_[0-9a-f]{4,31}")


class RulePreview(NamedTuple):
    english: str
    instants: list[Instant]
    warnings: list[str]


class Queries:
    def __init__(
        self, store: Store, kinds: Mapping[str, Kind], clock: Clock, zone: str = "UTC", limits: Limits | None = None
    ) -> None:
        self.store, self.kinds, self.clock, self.zone = store, kinds, clock, zone
        self.drafter = Drafter(kinds, zone, limits or Limits())

    def find(
        self, caller: Caller, public_id: str, kind: str | None = None, *, deleted: bool = False
    ) -> Schedule | None:
        """Return a schedule or None. Another owner's schedule looks exactly like one that does not exist. With
        `deleted`, return what is left of a deleted one too."""
        schedule = self.store.find(public_id) if could_be_an_id(public_id) else None
        schedule = _visible(schedule, caller, deleted=deleted)
        return None if schedule is None or kind not in (None, schedule.definition.kind) else schedule

    def check_scopes(self, caller: Caller, action: str, *definitions: Definition) -> None:
        """Raise OutOfScope if the caller's token must not do this, or not with one of these schedules."""
        if caller.scopes:
            check(caller.scopes, action, *(scope for each in definitions for scope in self.needed_scopes(each)))

    def check_runs(self, caller: Caller, runs: Sequence[Run], action: str = WRITE) -> None:
        pairs = self.with_schedules(caller, runs, deleted=True) if caller.scopes else []
        self.check_scopes(caller, action, *(each.definition for _, each in pairs if each is not None))

    def needed_scopes(self, definition: Definition) -> Scopes:
        kind = self.kinds.get(definition.kind)
        return (f"kind:{definition.kind}", *(() if kind is None else kind.scopes_for(definition)))

    def find_by_key(self, caller: Caller, key: str, kind: str) -> Schedule | None:
        """Return the schedule that was created with a key of the caller's owner, unless it was deleted."""
        schedule = self.store.by_key(caller.owner, key)
        return None if schedule is None or schedule.definition.kind != kind else schedule

    def schedule_of(self, caller: Caller, run: Run, *, deleted: bool = False) -> Schedule | None:
        """Return a run's schedule with the input of the run, unless the schedule was deleted; with `deleted`, return
        what is left of a deleted one too."""
        return self.with_schedules(caller, [run], deleted=deleted)[0][1]

    def with_schedules(
        self, caller: Caller, runs: Sequence[Run], *, deleted: bool = False
    ) -> list[tuple[Run, Schedule | None]]:
        """Return each run with its schedule, as `schedule_of` does."""
        stored = self.store.schedules(list({run.schedule for run in runs if caller.sees(run.owner, run.kind)}))
        return [(run, self._of_run(stored.get(run.schedule), run, deleted)) for run in runs]

    def _of_run(self, schedule: Schedule | None, run: Run, deleted: bool) -> Schedule | None:
        if schedule is None or (schedule.progress.state == ScheduleState.DELETED and not deleted):
            return None
        return schedule._replace(definition=with_input(schedule.definition, self.own_input(run)))

    def own_input(self, run: Run) -> RunInput:
        """Return the input of a run that was started with its own input, and who started it."""
        return self.store.run_input(run.id) if run.cause == Cause.MANUAL else RunInput()

    def search(self, caller: Caller, query: ScheduleQuery) -> Page[Schedule]:
        return self.store.search(seen_by(caller, query, PAGE_BYTES))

    def runs(self, caller: Caller, query: RunQuery) -> Page[Run]:
        page = self.store.runs(seen_by(caller, query, PAGE_BYTES))
        return page._replace(items=[self._as_seen(caller, run) for run in page.items]) if caller.depth else page

    def latest_failures(self, caller: Caller, schedules: Sequence[Schedule]) -> list[tuple[Run, Schedule | None]]:
        """Return the latest failed run of each schedule, which the caller sees, with its schedule."""
        runs = {run.schedule: run for run in self.store.latest_failures([each.definition.id for each in schedules])}
        pairs = [(runs.get(each.definition.id), each) for each in schedules]
        return [(self._as_seen(caller, run) if caller.depth else run, each) for run, each in pairs if run is not None]

    def incidents(self, caller: Caller, limit: int, *, resolved: bool | None = None) -> list[IncidentRow]:
        """Return the incidents of the caller or, for an operator, of all owners, the latest first: all that are not
        over, those that somebody has resolved, or the others."""
        rows = self.store.incidents(None if caller.operator else caller.owner, limit, resolved=resolved)
        return [row for row in rows if caller.sees(row.owner, row.kind)]

    def incident(self, caller: Caller, number: int) -> IncidentRow:
        for row in self.store.incidents_of((), [number]):
            if caller.sees(row.owner, row.kind):
                return row
        raise NotFound("there is no such incident, or it is over")

    def run_counts(self, caller: Caller, query: RunQuery) -> dict[str, int]:
        return self.store.run_counts(seen_by(caller, query))

    def _as_seen(self, caller: Caller, run: Run) -> Run:
        """Return a run as an agent's run sees it: its result does not repeat the credentials of its input."""
        schedule = None if run.result is None else self.schedule_of(caller, run, deleted=True)
        if run.result is None or schedule is None:
            return run
        return run._replace(result=redacted_result(run.result, schedule.definition.payload))

    def run(self, caller: Caller, run_id: int) -> Run | None:
        run = self.store.run(RunId(run_id)) if 0 < run_id < 2**63 else None
        if run is None or not caller.sees(run.owner, run.kind):
            return None
        return self._as_seen(caller, run) if caller.depth else run

    def meant_by(
        self, caller: Caller, reference: str | int, kind: str | None = None, *, deleted: bool = False
    ) -> Sequence[Schedule]:
        """Return the schedules of the caller that somebody can mean by an id (`job_5_1770000000`, `scd_...`), a number
        (5, `5`, `#5`), a reference (`5@1770000000000000`), a short id (`j5`), the beginning of an id (`job_5`,
        `scd_1a2b`) or a name, whatever its case. At most eight indexed queries; one for a whole id. `deleted`: the id
        of a deleted schedule finds it too."""
        text = str(reference).strip()
        if not text or not could_be_an_id(text):
            return []
        schedule = self._by_id(caller, text, deleted=deleted)
        if schedule is not None or isinstance(reference, int):  # a number is never a name
            return [] if schedule is None else [schedule]
        short = self.by_short_id(caller, text, deleted=deleted)
        for query in _searches(text):
            matching = self._matching(caller, query, kind)
            if short is not None and all(each.definition.id != short.definition.id for each in matching):
                matching = [short, *matching]  # a name may look like the short id of another schedule
            if matching:
                return matching
        short = self.by_short_id(caller, text.lower(), deleted=deleted)  # in capitals, if no name is
        return [] if short is None else [short]

    def _by_id(self, caller: Caller, text: str, *, deleted: bool) -> Schedule | None:
        schedule = self.store.find(text)
        if schedule is None and (reference := _REFERENCE.fullmatch(text)):
            schedule = self.store.find(reference[1])
            schedule = schedule if schedule is not None and schedule.definition.reference == text else None
        elif schedule is None and (number := _NUMBER.fullmatch(text) or _NUMBERED.fullmatch(text)):
            schedule = self.store.get(ScheduleId(int(number[1])))
            if schedule is not None and text[0].isalpha() and not schedule.definition.public_id.startswith(f"{text}_"):
                return None
        return _visible(schedule, caller, deleted=deleted)

    def by_short_id(self, caller: Caller, text: str, *, deleted: bool) -> Schedule | None:
        """Return the schedule with a short id such as `j5`."""
        match = _SHORT.fullmatch(text)
        schedule = None if match is None else self.store.get(ScheduleId(int(match[2])))
        if match is None or schedule is None or schedule.definition.kind[0] != match[1]:
            return None
        return _visible(schedule, caller, deleted=deleted)

    def _matching(self, caller: Caller, query: ScheduleQuery, kind: str | None) -> Sequence[Schedule]:
        """Return the matches, only those of this kind if there are any; of names that differ in case, the one with the
        given case. A name finds only the caller's own: whoever gives theirs the same name must not get an operator's
        changes."""
        query = seen_by(caller, query)
        query = query if query.name is None else replace(query, owner=caller.owner)
        of_kind = [] if kind is None else self.store.search(replace(query, kind=kind)).items
        schedules = of_kind or self.store.search(query).items
        exact = [each for each in schedules if each.definition.name == query.name]
        return exact or schedules

    def with_followed(
        self, caller: Caller, trigger_type: str | None, config: Mapping[str, Any], stored: Definition | None = None
    ) -> Mapping[str, Any]:
        """Return the configuration of a trigger with the schedule that it follows, if it follows one, which must have
        the same owner. `stored` is the schedule that an edit gives this trigger."""
        if trigger_type != "after":
            return config
        own = caller._replace(operator=False)
        reference, name = str(config.get("schedule", "")), config.get("name")
        schedules = self.meant_by(own, reference)
        is_followed = stored is not None and (json_object(stored.trigger) or {}).get("id") == reference
        if name and not is_followed and name not in [each.definition.name for each in schedules]:
            # it was renamed or, as every store has a number 1, belongs to another store
            candidates = self.meant_by(own, str(name))
            namesakes = [each for each in candidates if each.definition.name.lower() == str(name).lower()]
            schedules = namesakes or ([] if reference.isdecimal() else schedules)
            reference = reference if schedules else str(name)
        if len(schedules) != 1:
            ids = ", ".join(each.definition.short_id for each in schedules)
            several = f"{len(schedules)} of your schedules are called {reference!r}; give the id of one: {ids}"
            raise InvalidInput(field="schedule", problem=several if schedules else self._none_to_follow(own, reference))
        definition = schedules[0].definition
        return {**config, FOLLOWED: (definition.id, definition.public_id, definition.name)}

    def _none_to_follow(self, caller: Caller, reference: str) -> str:
        import difflib  # only an error needs it

        query = ScheduleQuery(status="living", newest_first=True, limit=_COMPARED, count_to=0)
        names = [masked(each.definition.name) for each in self.search(caller, query).items]
        near = "".join(f"did you mean {each}? " for each in difflib.get_close_matches(reference[:60], names, n=1))
        how = "give the id or the name of one from the list, with succeeds, fails or ends after it"
        return f"there is no schedule {reference[:60]!r} to follow; {near}{how}"

    def preview(
        self, trigger_type: str, config: Mapping[str, Any], *, timezone: str | None = None, count: int = 5
    ) -> RulePreview:
        now = self.clock.now()
        with step_budget(CREATION_STEPS):
            zone = known_zone(timezone or self.zone).key
            trigger = build_trigger(trigger_type, config, zone=zone, now=now, must_fire=False)
            self.drafter.check_rule(trigger, now)
            cautions = warnings_for(trigger, now)
            after = Instant(now - 1) if trigger.type == "once" else now  # once may mean this instant
            return RulePreview(describe(trigger), upcoming(trigger, after, count), cautions)


def seen_by(caller: Caller, query: Q, most_bytes: int | None = None) -> Q:
    """Return a query limited to what a caller may see and, unless it has another limit, to
    pages of `most_bytes`."""
    owner = query.owner if caller.operator else caller.owner
    query = replace(query, owner=owner, most_bytes=query.most_bytes or most_bytes)
    allowed = [scope.removeprefix("kind:") for scope in of_group(caller.scopes, "kind")]
    if not allowed:
        return query
    kinds = tuple(kind for kind in query.kinds or allowed if kind in allowed and query.kind in (None, kind))
    return replace(query, kind=None, kinds=kinds or ("",))  # no kind has an empty name


def with_input(definition: Definition, own: RunInput) -> Definition:
    """Return a definition with the input of one of its runs and the author of that, if that run has its own."""
    return definition if own.payload is None else definition._replace(payload=own.payload, author=own.actor)


def could_be_an_id(text: str) -> bool:
    """Return whether a store could contain the text as an id, because callers may ask for any string."""
    return len(text) <= 200 and is_text(text)


def _visible(schedule: Schedule | None, caller: Caller, *, deleted: bool) -> Schedule | None:
    if schedule is None or not caller.sees(schedule.definition.owner, schedule.definition.kind):
        return None
    return None if schedule.progress.state == ScheduleState.DELETED and not deleted else schedule


def _searches(text: str) -> list[ScheduleQuery]:
    """Return the further searches; the first one that finds something decides."""
    by_name = ScheduleQuery(name=text, limit=MOST_NAMED + 1, count_to=0)
    named = [replace(by_name, status="living"), by_name]
    return [replace(by_name, name=None, id_prefix=text), *named] if _BEGINNING.fullmatch(text) else named


@budgeted
def upcoming(trigger: Trigger, after: Instant, count: int) -> list[Instant]:
    """Return at most `count` instants: fewer if there are no more, or if finding more would take too many steps."""
    instants: list[Instant] = []
    following = trigger.next_after(after)
    while following is not None and following < NEVER and len(instants) < count:
        instants.append(following)
        try:
            following = trigger.next_after(following)
        except TooManySteps:
            break
    return instants
