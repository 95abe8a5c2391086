"""Inject the planned faults, and record the start and end of each fault."""

from __future__ import annotations

import asyncio
import itertools
import random
import time

import psutil

from chaos.faults import TYPES
from chaos.faults.fault import FaultType, Hit, NothingToBreak
from chaos.history.calls import Call
from chaos.history.faults import Fault
from chaos.plan import Plan, PlannedFault
from chaos.sandbox import Sandbox
from chaos.waiting import UNAVAILABLE

FELT_S = 0.2  # If a fault raises an error later than this after its start, it has already affected the cluster.
RETRIES_S = 20.0  # The time for retries of a fault that finds no target, for example because of an earlier fault.
# The pause between two retried faults. Without a pause, all retried faults would begin together as soon as Postgres is
# available again.
REST_S = 4.0


class Nemesis:
    """Injects a plan's faults.

    `faults` has the injected faults, and `missed` has the reason for each fault without a target.
    """

    def __init__(self, sandbox: Sandbox, plan: Plan) -> None:
        self.faults: list[Fault] = []
        self.missed: list[str] = []
        self.calls: list[Call] = []
        self.poisoned: frozenset[int] = frozenset()
        self._sandbox = sandbox
        self._plan = plan
        self._numbers = itertools.count(1)
        self._again = asyncio.Lock()

    async def run(self) -> None:
        """Inject each fault at its time, and wait until all faults are over."""
        begin = time.monotonic()
        async with asyncio.TaskGroup() as breaks:
            for number, it in enumerate(self._plan.faults):
                await asyncio.sleep(begin + it.at_s - time.monotonic())
                chance = random.Random(f"{self._plan.seed} {number}")
                breaks.create_task(self._break(it, chance), name=f"{it.fault} {number}")

    async def _break(self, it: PlannedFault, chance: random.Random) -> None:
        kind = TYPES[it.fault]
        give_up_at = time.monotonic() + RETRIES_S
        missed = await self._try(kind, it, chance)
        while missed and time.monotonic() < give_up_at:
            async with self._again:
                missed = await self._try(kind, it, chance)
                await asyncio.sleep(1.0 if missed else REST_S)
        if missed:
            self.missed.append(missed)

    async def _try(self, kind: FaultType, it: PlannedFault, chance: random.Random) -> str:
        """Inject and record one fault; return the reason if the fault found no target."""
        began_at = time.time()
        try:
            hit = await kind.inject(self._sandbox, chance, it.for_s)
        except (*UNAVAILABLE, NothingToBreak, LookupError, psutil.Error) as error:
            # Of two simultaneous faults, one may find no target, or may be interrupted by the other.
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
                recovers_within_s=self._sandbox.cluster.takeover_s if kind.takeover else kind.recovers_within_s,
                disturbs=kind.disturbs and hit.led,
                leaderless=kind.leaderless and hit.led,
                whole_within_s=hit.whole_within_s,
                detail=hit.detail,
            )
        )
