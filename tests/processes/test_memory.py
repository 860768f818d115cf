"""The allocator of a process that serves requests in threads."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from duetime.processes.memory import MAX_ARENAS

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
def test_threads_share_few_heaps() -> None:
    assert arenas("limited") <= MAX_ARENAS < arenas("usual")
