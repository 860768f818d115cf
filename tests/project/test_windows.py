"""Every module can be imported where the modules and functions of POSIX are missing, as on Windows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.cli import environment

SCRIPT = """
import importlib, os, pkgutil, signal, sys

ABSENT = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty")

def import_all():
    import duetime
    names = [each.name for each in pkgutil.walk_packages(duetime.__path__, "duetime.")]
    for name in names:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    return len(names)

import_all()  # first as usual: other packages have versions of their own for each platform
for name in [name for name in sys.modules if name.split(".")[0] == "duetime" or name in ABSENT]:
    del sys.modules[name]
for owner, names in (
    (os, ("fork", "forkpty", "getuid", "geteuid", "getgid", "killpg", "setsid", "getpgrp", "O_NOFOLLOW", "WNOHANG")),
    (signal, ("SIGKILL", "SIGHUP", "SIGCHLD", "SIGPIPE", "SIGALRM", "SIGUSR1", "setitimer", "pthread_sigmask")),
):
    for name in names:
        if hasattr(owner, name):
            delattr(owner, name)

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
count = import_all()
from duetime.http.connection_limits import raise_soft_limit, soft_limit
assert raise_soft_limit() == soft_limit() > 1000
print(count)
"""


@pytest.mark.process
def test_every_module_can_be_imported_without_those_of_posix() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 150
