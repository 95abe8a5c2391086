"""Define the jobs of a chaos run. Each run writes lines at its start, while it runs, and at its end.

A run writes each line with one call to an append-only file, so on one machine the order of lines is the order of
events. This file imports no module of the rig, because a cluster runs this file as a user's app.
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

DIRECTORY = "CHAOS_DIRECTORY"  # The environment variable with the run's directory, in all processes of the run.
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
    """Run for `length_s` seconds, and write a line every 50 ms."""
    end_s = time.monotonic() + length_s
    while time.monotonic() < end_s:
        await asyncio.sleep(BEAT_S)
        write_down(run, "beat")


@contextmanager
def written(run: shardclock.Run) -> Iterator[None]:
    """Record the start and the end of a run."""
    write_down(run, "begin")
    try:
        yield
    except BaseException as error:
        write_down(run, "raise" if isinstance(error, Exception) else "break")
        raise
    write_down(run, "end")


def write_down(run: shardclock.Run, event: str) -> None:
    """Append a line, in the field order of `record.Line`."""
    line = [event, run.job, run.run_id, time.time(), os.getpid()]
    os.write(_file(), f"{json.dumps(line)}\n".encode())


@cache
def _file() -> int:
    return os.open(Path(os.environ[DIRECTORY]) / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
