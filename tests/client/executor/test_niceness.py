"""Test that shards and workers get processor time first, and handlers by their priority."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shardclock.executor.niceness import NICE
from tests.support import ROOT

# The process has one thread before the call, and starts another thread after the call.
PROGRAM = """
import os, sys, threading

def nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id() if sys.platform == "linux" else 0)

wake, found = threading.Event(), []
def look() -> None:
    wake.wait(10)
    found.append(nice())

early = threading.Thread(target=look)
early.start()
from shardclock.executor.niceness import lower_priority
lower_priority({priority})
lower_priority(1)
late = threading.Thread(target=look)
late.start()
wake.set()
early.join()
late.join()
print(nice(), *found)
"""


@pytest.mark.parametrize("priority", [1, 2, 4])
def test_all_threads_of_a_handlers_process_have_the_priority_of_the_process(priority: int) -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(priority=priority)], cwd=ROOT, capture_output=True, text=True, check=True
    )

    ours = os.getpriority(os.PRIO_PROCESS, 0)  # a child inherits the priority
    assert told.stdout.split() == [str(max(ours, NICE[priority]))] * 3


def test_each_priority_is_below_shards_and_workers_and_above_the_next_priority() -> None:
    assert [*NICE] == [1, 2, 3, 4]
    assert 0 < NICE[1] < NICE[2] < NICE[3] < NICE[4] < 20
