"""Creates, edits and deletions that take effect together. A new schedule gets its number in the transaction, so a
trigger that follows one has its place among the drafts instead, as a negative number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from duetime.engine.clock import Instant
from duetime.engine.model import ENDED, Definition, Followed, ScheduleId
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.decision import followed_by
from duetime.engine.policy.rows import Draft
from duetime.engine.value_class import NamedTuple


class Batch(NamedTuple):
    now: Instant
    actor: str | None
    drafts: Sequence[Draft]
    edits: Mapping[ScheduleId, Edit]
    """Those that others follow come first, so that no schedule follows itself meanwhile."""
    deletions: Mapping[ScheduleId, Sequence[str]]
    """With the fields of the payload that the history keeps."""
    limits: Mapping[str, int] = {}
    most_bytes: Mapping[str, int] = {}

    def followed(self) -> set[ScheduleId]:
        triggers = [each.definition.trigger for each in self.drafts]
        triggers += [each.trigger for each in self.edits.values() if each.trigger is not None]
        return {place for trigger in triggers if (place := followed_by(trigger)) is not None}

    def numbered(self, draft: Draft, ids: Sequence[ScheduleId]) -> Draft:
        return Draft(draft.definition._replace(trigger=self._settled(draft.definition.trigger, ids)), draft.first)

    def settled(self, patch: Edit, ids: Sequence[ScheduleId]) -> Edit:
        return patch if patch.trigger is None else patch._replace(trigger=self._settled(patch.trigger, ids))

    def _settled(self, trigger: str, ids: Sequence[ScheduleId]) -> str:
        """Return a trigger with the number of the new schedule that it follows, if it follows one."""
        place = followed_by(trigger)
        if place is None or place >= 0:
            return trigger
        number, template = ids[-1 - place], self.drafts[-1 - place].definition.public_id
        stored = json.loads(trigger) | {"event": f"{ENDED}{number}", "id": template.replace("{id}", str(number))}
        return json.dumps(stored, sort_keys=True, separators=(",", ":"))


def place_of(definition: Definition, number: int) -> Followed:
    """Return how a trigger follows the new schedule with this place among the drafts."""
    return Followed(ScheduleId(-1 - number), definition.public_id, definition.name)
