"""Measure the longest step of an event loop: the longest time in which one callback delayed all other callbacks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock


@dataclass
class Longest:
    """The longest step so far, and its callback.

    units:   seconds of this thread's processor time: the time of other processes on a busy machine does not count
    """

    step_s: float = 0.0
    of: str = ""


@contextmanager
def longest_step() -> Iterator[Longest]:
    """Record the longest step of this process's event loops while the `with` block runs."""
    longest, run = Longest(), asyncio.events.Handle._run

    def measured(self: asyncio.Handle) -> None:
        begun_s = time.thread_time()
        run(self)
        took_s = time.thread_time() - begun_s
        if took_s > longest.step_s:
            longest.step_s, longest.of = took_s, repr(self)[:300]

    with mock.patch.object(asyncio.events.Handle, "_run", measured):
        yield longest
