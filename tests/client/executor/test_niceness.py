"""Prove that the processor's time goes to shards and workers first, and among handlers by priority."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shardclock.executor.niceness import NICE
from tests.support import ROOT

# The process has a thread before it steps back, and starts one after.
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
from shardclock.executor.niceness import be_nice
be_nice({priority})
be_nice(1)
late = threading.Thread(target=look)
late.start()
wake.set()
early.join()
late.join()
print(nice(), *found)
"""


@pytest.mark.parametrize("priority", [1, 2, 4])
def test_all_threads_of_a_handler_s_process_step_back_and_stay_back(priority: int) -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(priority=priority)], cwd=ROOT, capture_output=True, text=True, check=True
    )

    ours = os.getpriority(os.PRIO_PROCESS, 0)  # what a child begins with
    assert told.stdout.split() == [str(max(ours, NICE[priority]))] * 3


def test_every_priority_comes_after_shards_and_workers_and_before_the_next() -> None:
    assert [*NICE] == [1, 2, 3, 4]
    assert 0 < NICE[1] < NICE[2] < NICE[3] < NICE[4] < 20
