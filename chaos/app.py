"""What the timers of a chaos run call: handlers that do what the payload says, and write down each call before it.

A line is one write to a file that only grows, in the run's own directory: it is whole however the process ends, and no
part of the product has touched it. This file needs nothing of the rig, for a cluster runs it as any user's app. What
each act comes to is told in `acts`.
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

PLACE = "CHAOS_OF_SHARDCLOCK"  # names the run's directory, in the environment of all that the run has started
FILE = "attempts.ndjson"
SLOW_S = 3.0  # longer than a worker is stopped that another one has taken over from
NEVER_S = 3_600.0


@shardclock.on_timer("chaos.async", max_attempts=8, timeout="PT5S", retry_min="PT0.1S", retry_max="PT0.4S")
async def call_async(timer: shardclock.Timer) -> str | None:
    """Do what the payload says, beside the other calls of this process."""
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
    """Do what the payload says, in a process that is this call's alone."""
    write_down(timer)
    match timer.payload["act"]:
        case "exit" if timer.attempt == 1:
            os._exit(3)
        case "stall" if timer.attempt == 1:
            time.sleep(NEVER_S)
    return _end(timer)


def write_down(timer: shardclock.Timer) -> None:
    """Append what a call was told, and when it began, in the order of `history.Attempt`."""
    line = [
        timer.timer_key, timer.target, timer.tenant_id, timer.occurrence, timer.attempt, hash_of(timer.payload),
        time.time(), os.getpid(),
    ]  # fmt: skip
    os.write(_file(), f"{json.dumps(line)}\n".encode())


def hash_of(payload: Any) -> str:
    """Hash a payload, whatever the order of its members."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _end(timer: shardclock.Timer) -> str | None:
    act = timer.payload["act"]
    if act == "die" or (act == "raise" and timer.attempt < 3):
        raise ValueError(f"{act} at attempt {timer.attempt}")
    # A service task's result becomes variables. The models count in a variable of their own, and want no others.
    return None if timer.timer_type == "SERVICE_TASK" else f"{act} at attempt {timer.attempt}"


@cache
def _file() -> int:
    return os.open(Path(os.environ[PLACE]) / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
