"""Define the handlers of a chaos run.

Each handler records its call in a file, and then performs the action in the payload.

A handler writes each line with one system call to an append-only file in the run's directory. A line is therefore
complete even if the process dies after the write. The file does not depend on the product's own tables. This module
imports no module of the rig, because a cluster runs this module as a user's app. `behaviours` lists the expected end of
each delivery.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import shardclock

DIRECTORY = "CHAOS_DIRECTORY"  # The environment variable with the run's directory, in all processes of the run.
FILE = "attempts.ndjson"
SLOW_S = 3.0  # A slow call is longer than the fault that freezes a worker while another worker takes over.
NEVER_S = 3_600.0


@shardclock.on_timer("chaos.async", max_attempts=8, timeout="PT5S", retry_min="PT0.1S", retry_max="PT0.4S")
async def call_async(timer: shardclock.Timer) -> str | None:
    """Perform the action; other calls run concurrently in this process."""
    write_down(timer)
    match timer.payload["act"]:
        case "hang" if timer.attempt == 1:
            await asyncio.sleep(NEVER_S)
        case "slow":
            await asyncio.sleep(SLOW_S)
        case "discard":
            raise shardclock.Discard("the payload says so")
    return _end(timer)


@shardclock.on_timer("chaos.plain", max_attempts=8, timeout="PT1.5S", retry_min="PT0.1S", retry_max="PT0.4S")
def call_plain(timer: shardclock.Timer) -> str | None:
    """Perform the action; no other call runs in this process."""
    write_down(timer)
    match timer.payload["act"]:
        case "exit" if timer.attempt == 1:
            os._exit(3)
        case "stall" if timer.attempt == 1:
            time.sleep(NEVER_S)
    return _end(timer)


def write_down(timer: shardclock.Timer) -> None:
    """Append a line with the call's arguments and start time, in the field order of `history.HandlerCall`."""
    line = [
        timer.timer_key, timer.target, timer.tenant_id, timer.occurrence, timer.attempt, hash_of(timer.payload),
        time.time(), os.getpid(),
    ]  # fmt: skip
    os.write(_file(), f"{json.dumps(line)}\n".encode())


def hash_of(payload: Any) -> str:
    """Hash a payload; the order of its members has no effect."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _end(timer: shardclock.Timer) -> str | None:
    act = timer.payload["act"]
    if act == "die" or (act == "raise" and timer.attempt < 3):
        raise ValueError(f"{act} at attempt {timer.attempt}")
    # Return no result for a service task, because its result would become variables.
    return None if timer.timer_type == "SERVICE_TASK" else f"{act} at attempt {timer.attempt}"


@cache
def _file() -> int:
    return os.open(Path(os.environ[DIRECTORY]) / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
