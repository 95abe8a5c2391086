"""Faults keep out of each other's way, and hit what they name."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time

import psutil
import pytest

from tests.chaos.clusters import Processes
from tests.chaos.faults.fault import NothingToBreak
from tests.chaos.faults.postgres import stop_immediate
from tests.chaos.faults.processes import without_forks
from tests.chaos.stage import stage_for
from tests.support.processes import kill

LOOK_S = 0.005


@pytest.mark.exhaustive
async def test_a_server_that_one_fault_brings_up_again_is_not_stopped_by_another() -> None:
    chance = random.Random(1)
    seen_coming_up = False
    async with stage_for(Processes(1)) as stage:
        first = asyncio.create_task(stop_immediate(stage, chance, 0.0))
        await asyncio.sleep(LOOK_S)

        while not first.done():
            seen_coming_up |= stage.postmaster.process() is not None
            with pytest.raises(NothingToBreak, match="Postgres is away already"):
                await stop_immediate(stage, chance, 0.0)
            await asyncio.sleep(LOOK_S)

        await first
        assert await stage.answers()
    assert seen_coming_up, "a second stop came while the server started"


def test_a_fork_of_a_process_is_not_taken_for_it() -> None:
    # Given a process, and a child of it that has the same command line
    program = "import os, time; os.fork(); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        me = psutil.Process(parent.pid)
        try:
            deadline_s = time.monotonic() + 10.0
            while not (children := me.children()) and time.monotonic() < deadline_s:
                time.sleep(0.01)

            assert without_forks([*children, me]) == [me]
            assert without_forks(children) == children
        finally:
            kill([*children, me])
