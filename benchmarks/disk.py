"""Measure the time during which a disk had requests but finished no request.

During this time no commit ends, and all timers are late. On a disk that several machines share, such pauses come at
random, last tenths of a second, and affect any contender.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import psutil

EVERY_S = 0.02  # a reading of the counters takes 0.1 ms


class Look(NamedTuple):
    """The counters of a disk at one moment: finished reads and writes, and the time during which it had requests."""

    at_s: float
    finished: int
    busy_s: float


@dataclass
class Watch:
    """The time during which a disk paused; None if the system has no counters."""

    stood_s: float | None = None


@contextlib.asynccontextmanager
async def watched() -> AsyncIterator[Watch]:
    """Watch all disks during a block; the result is set at the end of the block."""
    looks = [_look()]
    task = asyncio.create_task(_go_on(looks))
    watch = Watch()
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if looks[0]:
        watch.stood_s = sum(stood_still(earlier, later) for earlier, later in pairwise(looks))


def stood_still(earlier: Mapping[str, Look], later: Mapping[str, Look]) -> float:
    """Return the seconds during which any disk paused between two readings."""
    for name in earlier.keys() & later.keys():
        before, after = earlier[name], later[name]
        passed_s = after.at_s - before.at_s
        if after.finished == before.finished and after.busy_s - before.busy_s > passed_s / 2:
            return passed_s
    return 0.0


async def _go_on(looks: list[Mapping[str, Look]]) -> None:
    while True:
        await asyncio.sleep(EVERY_S)
        looks.append(_look())


def _look() -> Mapping[str, Look]:
    at_s = time.monotonic()
    told = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
    return {
        name: Look(at_s, it.read_count + it.write_count, it.busy_time / 1000)
        for name, it in told.items()
        if hasattr(it, "busy_time")
    }
