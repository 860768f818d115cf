"""Hooks from Python: addresses at which other services report events."""

from __future__ import annotations

from duetime.api.methods import Opened, method
from duetime.service.answers import Hook
from duetime.service.operations import hooks
from duetime.service.operations.hooks import ChangeHook, CreateHook


class Hooking:
    @method
    def create_hook(self: Opened, name: str, scheme: str, *, secret: str | None = None) -> Hook:
        """Create a hook, at which a service reports events. Only this answer has its `secret`, which is new unless the
        sender issued one. `scheme` says how the sender signs: github, standard (Standard Webhooks), stripe, hmac, url.
        """
        view = hooks.create_hook(self._call, CreateHook(name=name, scheme=scheme, secret=secret)).value
        return Hook(view.copy, self._call.zone)

    @method
    def hooks(self: Opened) -> list[Hook]:
        """Return the hooks with their latest deliveries, without their secrets."""
        return [Hook(view.copy, self._call.zone) for view in hooks.hooks(self._call).value]

    @method
    def rotate_hook(self: Opened, hook: str, *, secret: str | None = None) -> Hook:
        """Replace the secret of a hook, given by its id or name. Only this answer has the new one; the old one is
        refused from now on."""
        view = hooks.rotate_hook(self._call, ChangeHook(hook=hook, secret=secret)).value
        return Hook(view.copy, self._call.zone)

    @method
    def test_hook(self: Opened, hook: str) -> Hook:
        """Report the event NAME.test as if it had arrived at the hook. Schedules that listen to it run."""
        return Hook(hooks.send_test(self._call, ChangeHook(hook=hook)).value.copy, self._call.zone)

    @method
    def delete_hook(self: Opened, hook: str) -> None:
        """Delete a hook, given by its id or name. Its events stay."""
        hooks.delete_hook(self._call, ChangeHook(hook=hook))
