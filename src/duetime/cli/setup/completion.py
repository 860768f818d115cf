"""`duetime completion`: print the script with which a shell completes commands and options."""

from __future__ import annotations

from typing import Annotated

import typer

from duetime.cli.main import COMPLETION
from duetime.engine.errors import InvalidInput
from duetime.terminal import output
from duetime.terminal.context import Json
from duetime.terminal.typer_ext import PlainCommand, single

_HOW = {
    "bash": 'eval "$(duetime completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(duetime completion zsh)"    # in ~/.zshrc, after compinit',
    "fish": "duetime completion fish > ~/.config/fish/completions/duetime.fish",
}

commands = single()


@commands.command(cls=PlainCommand)
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")], json_: Json = False
) -> None:
    """Print what a shell has to read to complete commands and options."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # exported nowhere else

    if shell not in _HOW:
        raise InvalidInput(f"SHELL: there is no {shell!r}; there are {', '.join(_HOW)}")
    script = get_completion_script(prog_name="duetime", complete_var=COMPLETION, shell=shell)
    if json_:
        output.print_json({"shell": shell, "script": script, "how": _HOW[shell]})
        return
    print(script)
    if output.is_terminal():
        output.note(f"To have it always: {_HOW[shell]}")
