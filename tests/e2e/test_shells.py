"""Completion in the real shells, where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import environment

_BASH = """
eval "$(duetime completion bash)"
read -ra COMP_WORDS <<< "$1"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE="$1" COMP_POINT=${#1}
$(complete -p duetime | sed -E 's/.*-F ([^ ]+).*/\\1/') duetime "${COMP_WORDS[$COMP_CWORD]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
_FISH = "duetime completion fish | source; complete -C $argv[1]"
_ZSH = """
zmodload zsh/zpty
zpty shell 'zsh -f -i'
zpty -w shell 'autoload -Uz compinit; compinit -u -D; eval "$(duetime completion zsh)"; echo LOA""DED'
zpty -r shell seen '*LOADED*'
zpty -w -n shell "$1"$'\\t'
zpty -r shell seen "*$2*"
print -r -- "$2"
zpty -d shell
"""


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_a_real_shell_completes_commands_tasks_ids_and_zones(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed here")
    folder = Path(sys.executable).parent
    env = environment() | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "xterm"}
    env |= {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90,
            check=True,
        )  # fmt: skip
        return done.stdout

    run(sys.executable, "-m", "duetime", "job", "add", "report", "--task", "echo", "--every", "2h")
    script = {"bash": ("-c", _BASH, "bash"), "fish": ("--no-config", "-c", _FISH), "zsh": ("-f", "-c", _ZSH, "zsh")}
    for line, expected in (
        ("duetime jo", "job"),
        ("duetime job show repo", "report"),
        ("duetime job add x --task ec", "echo"),
        ("duetime next --tz Europe/Berl", "Europe/Berlin"),
    ):
        found = run(program, *script[shell], line, expected)
        assert expected in [each.partition("\t")[0] for each in found.splitlines()], (line, found)
