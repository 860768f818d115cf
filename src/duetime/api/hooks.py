"""Hooks from Python: addresses at which other services report events."""

from __future__ import annotations

from duetime.api.methods import Opened, method
from duetime.service.answers import Hook
from duetime.service.operations import hooks
from duetime.service.operations.hooks import CreateHook, OneHook, RotateHook, hook_view
from duetime.service.services import Call
from duetime.service.vocabulary import HookRow


def _hook(call: Call, hook: HookRow, *, with_secret: bool = False) -> Hook:
    return Hook(hook_view(call, hook, with_secret=with_secret).copy, call.zone)


class Hooking:
    @method
    def create_hook(self: Opened, name: str, scheme: str, *, secret: str | None = None) -> Hook:
        """Create a hook, at which a service reports events. Only this answer has its `secret`, which is new unless the
        sender issued one.

        `scheme` says how the sender proves itself: github, standard (Standard Webhooks), stripe, hmac or url.
        """
        hook = hooks.create_hook(self._call, CreateHook(name=name, scheme=scheme, secret=secret)).value
        return _hook(self._call, hook, with_secret=True)

    @method
    def hooks(self: Opened) -> list[Hook]:
        """Return the hooks with their latest deliveries, without their secrets."""
        return [_hook(self._call, each) for each in hooks.hooks(self._call).value]

    @method
    def rotate_hook(self: Opened, hook: str, *, secret: str | None = None) -> Hook:
        """Replace the secret of a hook, given by its id or name. Only this answer has the new one; the old one is
        refused from now on."""
        rotated = hooks.rotate_hook(self._call, RotateHook(hook=hook, secret=secret)).value
        return _hook(self._call, rotated, with_secret=True)

    @method
    def test_hook(self: Opened, hook: str) -> Hook:
        """Report the event NAME.test as if it had arrived at the hook. Schedules that listen to it run."""
        return _hook(self._call, hooks.send_test(self._call, OneHook(hook=hook)).value)

    @method
    def delete_hook(self: Opened, hook: str) -> None:
        """Delete a hook, given by its id or name. Its events stay."""
        hooks.delete_hook(self._call, OneHook(hook=hook))
