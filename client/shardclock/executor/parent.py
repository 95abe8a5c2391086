"""End an executor when its worker dies, and let the kernel kill executors first when memory is short.

On Linux the kernel kills the executor when its worker dies. On other systems a thread watches the parent; the thread
has to wait while user code holds Python's global lock.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1  # the option of prctl for the signal that the kernel sends to this process when its parent dies
WATCH_S = 0.5


def end_with_parent(worker: socket.socket) -> None:
    """End this process when its parent dies; the parent has the other side of the socket."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()
    with suppress(BlockingIOError):
        if not worker.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
            end_at_once()  # the parent died before prctl


def prefer_for_oom_kill() -> None:
    """Make the kernel kill this process before shards, workers and Postgres if memory is short, as Ray does."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def end_at_once() -> NoReturn:
    """End this process; if it leads a process group, also end the other processes of the group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    end_at_once()
