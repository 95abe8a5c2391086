"""Faults keep out of each other's way."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.chaos.clusters import Processes
from tests.chaos.faults.fault import NothingToBreak
from tests.chaos.faults.postgres import stop_immediate
from tests.chaos.stage import stage_for

LOOK_S = 0.005


@pytest.mark.slow
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
