"""The memory of processes that are there to work: the garbage collector and the allocator."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from duetime.processes.memory import MAX_ARENAS, RELAXED_THRESHOLDS, relaxed_collector

CHILD = """
import ctypes, re, sys, tempfile, threading
if sys.argv[1] == "limited":
    from duetime.processes.memory import limit_arenas
    limit_arenas()
together = threading.Barrier(12)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def allocate():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with tempfile.NamedTemporaryFile() as file:
    libc.fopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(len(re.findall("<heap nr", file.read().decode())))
"""


def arenas(mode: str) -> int:
    """Return the number of heaps of a process after twelve threads have allocated memory at the same time."""
    done = subprocess.run([sys.executable, "-c", CHILD, mode], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has a heap for each thread")
@pytest.mark.process
def test_threads_share_few_heaps() -> None:
    assert arenas("limited") <= MAX_ARENAS < arenas("usual")


def test_the_collector_is_relaxed_for_a_while() -> None:
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    with relaxed_collector():
        assert gc.get_threshold() == RELAXED_THRESHOLDS
        assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == thresholds
    assert bool(gc.get_freeze_count()) == bool(frozen)


WORKER = """
import gc, threading
from duetime import Duetime, task

@task
def look() -> None:
    print(gc.get_threshold() != usual, gc.get_freeze_count() > 0)
    threading.Thread(target=duetime.stop).start()

usual = gc.get_threshold()
duetime = Duetime("my.db")
duetime.schedule(look, at="now")
FORM
print(gc.get_threshold() != usual, gc.get_freeze_count() > 0)
duetime.close()
"""
IN_ANOTHER_THREAD = "thread = threading.Thread(target=duetime.run_forever); thread.start(); thread.join()"


@pytest.mark.process
@pytest.mark.parametrize(
    ("form", "meanwhile"),
    [("duetime.run_forever()", "True True"), (IN_ANOTHER_THREAD, "False False")],
    ids=["a process that is a worker", "a process that contains one"],
)
def test_only_the_process_of_a_worker_relaxes_its_collector(tmp_path: Path, form: str, meanwhile: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", WORKER.replace("FORM", form)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [meanwhile, "False False"]
