"""`duetime hook`: addresses at which other services report events. A secret is printed once."""

from __future__ import annotations

import sys
from typing import Annotated

from duetime.security.webhook_signatures import SCHEMES
from duetime.service.operations import hooks
from duetime.service.operations.declaration import Answer
from duetime.service.operations.hooks import ChangeHook, CreateHook
from duetime.service.presenters import View
from duetime.terminal import output
from duetime.terminal.completion import one_of
from duetime.terminal.context import Db, Json, opened
from duetime.terminal.declarations import argument, group, option
from duetime.terminal.output import plural

Name = Annotated[str, argument("NAME", "Its id or name.")]
Scheme = Annotated[str, option("--scheme NAME", f"How the sender signs: {', '.join(SCHEMES)}.", **one_of(*SCHEMES))]
Pasted = Annotated[bool, option("--secret-stdin", "Read the secret that the sender issued from standard input.")]
NewName = Annotated[str, argument("NAME", "First part of the names of its events, such as github.")]

commands = group("Hooks: addresses at which other services report events.")


@commands.command(epilog="duetime hook create github --scheme github")
def create(name: NewName, scheme: Scheme, secret_stdin: Pasted = False, db: Db = None, json_: Json = False) -> None:
    """Create a hook, and print its address and its secret. The secret is shown only now."""
    with opened(db) as app:
        request = CreateHook(name=name, scheme=scheme, secret=_pasted(secret_stdin))
        _print(hooks.create_hook(app.call, request), json_)


@commands.command()
def rotate(name: Name, secret_stdin: Pasted = False, db: Db = None, json_: Json = False) -> None:
    """Replace the secret of a hook, and print the new one. The old one is refused from now on."""
    with opened(db) as app:
        _print(hooks.rotate_hook(app.call, ChangeHook(hook=name, secret=_pasted(secret_stdin))), json_)


def _pasted(is_pasted: bool) -> str | None:
    return sys.stdin.readline().strip() if is_pasted else None


def _print(answer: Answer[View], json_: bool) -> None:
    view = answer.value
    output.print_result(json_, view, f"Address: {view['url']}\nSecret:  {view['secret']}")
    if not json_:
        name = view["name"]
        names = f"event is {name}" if view["scheme"] in ("hmac", "url") else f"events are {name} or {name}.TYPE"
        output.note(f"its {names}; the secret is not shown again")
        output.warn(answer.notes)


@commands.command("list", reads=True)
def list_(db: Db = None, json_: Json = False) -> None:
    """List hooks with the time of their latest delivery."""
    with opened(db) as app:
        views, zone = hooks.hooks(app.call).value, app.call.zone
    if json_:
        return output.print_json({"hooks": views})
    if views:
        rows = [
            [each["name"], each["scheme"], each["url"], output.in_words(each["last_used"] or "-", zone)]
            for each in views
        ]
        output.table(["NAME", "SCHEME", "ADDRESS", "LAST USED"], rows, fold=True)
    output.say(f"{plural(len(views), 'hook')}." if views else "No hooks. `duetime hook create` makes one.")


@commands.command()
def test(name: Name, db: Db = None, json_: Json = False) -> None:
    """Report the event NAME.test, as if it had arrived. Schedules that listen to it run."""
    with opened(db) as app:
        view = hooks.send_test(app.call, ChangeHook(hook=name)).value
    output.print_result(json_, view, f"Reported {view['deliveries'][0]['event']}.")


@commands.command()
def delete(name: Name, db: Db = None, json_: Json = False) -> None:
    """Delete a hook. Its events stay."""
    with opened(db) as app:
        hook = hooks.delete_hook(app.call, ChangeHook(hook=name)).value
    output.print_result(json_, {"deleted": hook.id}, f"Deleted the hook {hook.name}.")
