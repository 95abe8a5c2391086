"""The runs of one worker: which are in hand, by which leases, and which are under way."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from shardclock_server.jobs.ending import Asked, Ending
from shardclock_server.sql.deliveries.claim import Claim, Renewal
from shardclock_server.sql.jobs.runs import BegunRun
from shardclock_server.workers.lease_table import LeaseTable
from shardclock_server.workers.runs.lifetime import MARGIN_S
from shardclock_server.workers.runs.live import LiveRun


class RunTable:
    """Own the state of a worker's runs, from their claim until Postgres has taken their ends.

    A run is in hand from its claim until its end is written, or until it is lost. It is under way while its process
    makes it, or while it waits for one. A lost run has left the hand, and its process may live for a moment.

    units:   moments are of a monotonic clock, in seconds
    """

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self._leases = LeaseTable[BegunRun]()
        self._live: dict[Claim, LiveRun] = {}
        self._making: dict[Claim, asyncio.Task[None]] = {}
        self._without_node: set[Claim] = set()

    def __len__(self) -> int:
        """Count the runs in hand."""
        return len(self._leases)

    @property
    def timer_keys(self) -> list[int]:
        """Return the deliveries of all runs that are in hand or under way."""
        return [key for key, _ in {*self._live, *self._leases.claims}]

    @property
    def live(self) -> list[LiveRun]:
        """Return the runs that are under way."""
        return list(self._live.values())

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """Return the tasks of the runs that are under way."""
        return set(self._making.values())

    @property
    def awaits_node(self) -> bool:
        """Say whether a run is in its place, and waits for a node that fits its needs."""
        return bool(self._without_node)

    def take(self, begun: Iterable[BegunRun], *, now_s: float) -> None:
        """Take runs that were begun into the hand."""
        self._leases.take(begun, now_s=now_s)

    def make(self, live: LiveRun, made: Coroutine[Any, Any, None], *, awaits_node: bool) -> None:
        """Put a run under way; `made` ends by `end_making`."""
        claim = live.run.claim
        if awaits_node:
            self._without_node.add(claim)
        self._live[claim] = live
        self._making[claim] = asyncio.create_task(made, name=live.run.run_id)

    def call(self, live: LiveRun) -> None:
        """Note that a run's function is called: its node is there."""
        self._without_node.discard(live.run.claim)

    def end_making(self, claim: Claim) -> None:
        """Note that a run is no longer under way."""
        self._live.pop(claim, None)
        self._making.pop(claim, None)
        self._without_node.discard(claim)

    def drop(self, runs: Iterable[BegunRun]) -> None:
        """Take runs out of the hand: Postgres has taken their ends."""
        self._leases.drop(runs)

    def to_renew(self, now_s: float) -> list[BegunRun]:
        """Return the runs with leases that have run for a quarter of their time."""
        return self._leases.renewed_before(now_s - self.lease_s / 4)

    def renew(self, asked: Sequence[BegunRun], renewal: Renewal, *, now_s: float) -> list[LiveRun]:
        """Note which of some leases were renewed; return the runs under way that are lost.

        A locked delivery can't be claimed by another worker, so its run goes on. But its lease does not: if the lock
        outlasts it, the run's process ends itself, since another worker may begin the moment the lock is gone.
        """
        self._leases.renew((run for run in asked if run.claim in renewal.renewed), now_s=now_s)
        lost = list[LiveRun]()
        for run in asked:
            live = self._live.get(run.claim)
            if run.claim in renewal.renewed:
                if live is not None:
                    live.life.lease_until_s = now_s + self.lease_s - MARGIN_S
            elif run.claim not in renewal.locked:
                self._leases.drop([run])
                if live is not None:
                    lost.append(live)
        return lost

    def is_under_way(self, live: LiveRun) -> bool:
        """Say whether a run has not ended yet."""
        return live.run.claim in self._live

    def lose(self, live: LiveRun) -> None:
        """Let go of a run that another worker has, or may soon have."""
        self._leases.drop([live.run])
        live.lose()

    def ask_all(self, why: Asked, reason: str) -> None:
        """Ask all runs that are under way to end."""
        for it in self._live.values():
            it.ask(why, reason)

    async def break_off(self, reason: str) -> list[tuple[LiveRun, Ending]]:
        """Break off all runs that are under way; return each with its ending."""
        for task in self._making.values():
            task.cancel()
        await asyncio.gather(*self._making.values(), return_exceptions=True)
        live = self.live
        endings = await asyncio.gather(*(it.break_off(reason) for it in live))
        self._live.clear()
        return list(zip(live, endings, strict=True))
