"""The life of an executor that its worker has started: it ends with its worker, before any other process if need be.

On Linux the kernel kills the executor when its worker dies. A thread that watches the worker would need Python's lock
for that, which the user's code may keep. Elsewhere such a thread is all there is.
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

PR_SET_PDEATHSIG = 1  # of prctl: the signal that the kernel sends to this process when its parent dies
WATCH_S = 0.5


def end_with_parent(worker: socket.socket) -> None:
    """Let this process end when its parent dies, which has the other end of the socket."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()
    with suppress(BlockingIOError):
        if not worker.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
            end_at_once()  # the parent has died before


def be_first_to_go() -> None:
    """Let the kernel end this process before shards, workers and Postgres if memory is short, as Ray does."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def end_at_once() -> NoReturn:
    """End this process, and those that it has forked if it leads their group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    end_at_once()
