"""The part of every store that keeps hooks, which other services call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple

from duetime.engine.errors import Conflict, LimitReached, NotFound
from duetime.engine.store_interfaces import HookRow, Hooks
from duetime.stores.records import RecordsMixin


class HooksMixin(RecordsMixin, Hooks):
    def insert_hook(self, hook: HookRow, limit: int) -> None:
        with self._write() as tx:
            tx.lock_owner(hook.owner)
            names = {row[2] for row in tx.rows("hooks_of", hook.owner, limit)}
            if hook.name in names:
                raise Conflict(f"there is a hook {hook.name} already; rotate its secret, or use another name")
            if len(names) >= limit:
                raise LimitReached(f"an owner may have {limit} hooks; delete one that is not used", code="quota")
            tx.rows("insert_hook", *astuple(hook))

    def hook(self, id: str) -> HookRow | None:
        return next((HookRow(*row) for row in self._named("hook", id)), None)

    def hooks(self, owner: str | None, limit: int) -> list[HookRow]:
        rows = self._named("hooks", limit) if owner is None else self._named("hooks_of", owner, limit)
        return [HookRow(*row) for row in rows]

    def change_hook(self, id: str, change: Callable[[HookRow], HookRow]) -> HookRow:
        with self._write() as tx:
            rows = tx.rows("lock_hook", id)
            if not rows:
                raise NotFound("There is no such hook.")
            hook = change(HookRow(*rows[0]))
            tx.rows("update_hook", hook.secret, hook.used, hook.deliveries, id)
        return hook

    def delete_hook(self, id: str) -> None:
        with self._write() as tx:
            tx.rows("delete_hook", id)
