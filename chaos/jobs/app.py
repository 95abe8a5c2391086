"""The jobs of a chaos run. Each run writes a line when it begins, while it goes on, and when it ends.

A line is one write to a file that only grows, in the run's own directory: so the order of lines is the order of what
happened, on one machine. This file needs nothing of the rig, for a cluster runs it as any user's app.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import shardclock

PLACE = "CHAOS_OF_SHARDCLOCK"  # names the run's directory, in the environment of all that the run has started
FILE = "runs.ndjson"
BEAT_S = 0.05


@shardclock.job("quick", every="PT0.5S", retry_period="PT1S")
async def quick(run: shardclock.Run) -> None:
    with written(run):
        await live(run, 0.1)


@shardclock.job("second", every="PT1S", retry_period="PT1S")
async def second(run: shardclock.Run) -> int:
    with written(run):
        await live(run, 1.0)
    return run.attempt


@shardclock.job("plain", every="PT1S", retry_period="PT1S")
def plain(run: shardclock.Run) -> None:
    with written(run):
        for step in range(20):
            time.sleep(BEAT_S)
            write_down(run, "beat")
            run.progress(step / 20)


@shardclock.job("long", every="PT1S", retry_period="PT1S")
async def long(run: shardclock.Run) -> None:
    with written(run):
        await live(run, 12.0)


@shardclock.job("fails", every="PT1S", max_retries=2, retry_period="PT0.5S")
async def fails(run: shardclock.Run) -> None:
    with written(run):
        await live(run, 0.2)
        if run.attempt < 3:
            raise ValueError(f"attempt {run.attempt}")


@shardclock.job("grid", cron="*/2 * * * * *", retry_period="PT1S")
async def grid(run: shardclock.Run) -> None:
    with written(run):
        await live(run, 0.5)


@shardclock.job("queues", cron="*/3 * * * * *", overlap="queue", retry_period="PT1S")
async def queues(run: shardclock.Run) -> None:
    with written(run):
        await live(run, 1.0)


@shardclock.job("replaces", cron="*/5 * * * * *", overlap="replace", grace="PT1S", retry_period="PT1S")
async def replaces(run: shardclock.Run) -> None:
    with written(run):
        await live(run, 7.0)


async def live(run: shardclock.Run, length_s: float) -> None:
    """Take so long, and write a line every 50 ms."""
    end_s = time.monotonic() + length_s
    while time.monotonic() < end_s:
        await asyncio.sleep(BEAT_S)
        write_down(run, "beat")


@contextmanager
def written(run: shardclock.Run) -> Iterator[None]:
    """Write down how a run begins and ends."""
    write_down(run, "begin")
    try:
        yield
    except BaseException as error:
        write_down(run, "raise" if isinstance(error, Exception) else "break")
        raise
    write_down(run, "end")


def write_down(run: shardclock.Run, what: str) -> None:
    """Append a line, in the order of `record.Line`."""
    line = [what, run.job, run.run_id, time.time(), os.getpid()]
    os.write(_file(), f"{json.dumps(line)}\n".encode())


@cache
def _file() -> int:
    return os.open(Path(os.environ[PLACE]) / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
