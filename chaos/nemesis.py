"""Break things as the plan says, and write down what was broken, from when to when."""

from __future__ import annotations

import asyncio
import itertools
import random
import time

import psutil

from chaos.away import AWAY
from chaos.faults import TYPES
from chaos.faults.fault import FaultType, Hit, NothingToBreak
from chaos.history import Call, Fault
from chaos.plan import Break, Plan
from chaos.stage import Stage

FELT_S = 0.2  # what was broken off later than that has been felt
RETRIES_S = 20.0  # a fault that meets another one's ruins is tried again for this long
REST_S = 4.0  # between two that were tried again: they would all come at the moment that Postgres is back


class Nemesis:
    """Do what a plan says to the stage; `faults` is what was broken, `missed` what there was nothing to break for."""

    def __init__(self, stage: Stage, plan: Plan) -> None:
        self.faults: list[Fault] = []
        self.missed: list[str] = []
        self.calls: list[Call] = []
        self.poisoned: frozenset[int] = frozenset()
        self._stage = stage
        self._plan = plan
        self._numbers = itertools.count(1)
        self._again = asyncio.Lock()

    async def run(self) -> None:
        """Break everything at its time, and wait until all is mended."""
        begin = time.monotonic()
        async with asyncio.TaskGroup() as breaks:
            for number, it in enumerate(self._plan.breaks):
                await asyncio.sleep(begin + it.at_s - time.monotonic())
                chance = random.Random(f"{self._plan.seed} {number}")
                breaks.create_task(self._break(it, chance), name=f"{it.fault} {number}")

    async def _break(self, it: Break, chance: random.Random) -> None:
        kind = TYPES[it.fault]
        give_up_at = time.monotonic() + RETRIES_S
        missed = await self._try(kind, it, chance)
        while missed and time.monotonic() < give_up_at:
            async with self._again:
                missed = await self._try(kind, it, chance)
                await asyncio.sleep(1.0 if missed else REST_S)
        if missed:
            self.missed.append(missed)

    async def _try(self, kind: FaultType, it: Break, chance: random.Random) -> str:
        """Break it, and learn what was broken; why there was nothing to break, if so."""
        began_at = time.time()
        try:
            hit = await kind.act(self._stage, chance, it.for_s)
        except (*AWAY, NothingToBreak, LookupError, psutil.Error) as error:
            # Of two faults at a time one may find nothing left to break, or be broken off by the other half way.
            if time.time() - began_at <= FELT_S:
                return f"{it.fault}: {type(error).__name__} {error}"
            hit = Hit(detail={"broken_off": type(error).__name__})
        self._learn(kind, hit, began_at)
        return ""

    def _learn(self, kind: FaultType, hit: Hit, began_at: float) -> None:
        self.calls += hit.calls
        self.poisoned |= hit.poisoned
        self.faults.append(
            Fault(
                number=next(self._numbers),
                kind=kind.kind,
                name=kind.name,
                began_at=hit.began_at or began_at,
                ended_at=hit.ended_at or time.time(),
                victims=hit.victims,
                recovers_within_s=self._stage.cluster.takeover_s if kind.takeover else kind.recovers_within_s,
                disturbs=kind.disturbs,
                leaderless=kind.leaderless,
                detail=hit.detail,
            )
        )
