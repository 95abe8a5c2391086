"""The runs of one worker: their leases, the runs under way, and the advances and ends that are not written yet."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

from shardclock_server.jobs.ending import Asked, Ending
from shardclock_server.jobs.states import JobState
from shardclock_server.sql.deliveries.claim import Claim, Renewal
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun
from shardclock_server.workers.lease_table import LeaseTable
from shardclock_server.workers.runs.lifetime import MARGIN_S
from shardclock_server.workers.runs.live import LiveRun

Advance = tuple[BegunRun, str, str | None]  # a run, the state that it has now, and why

T = TypeVar("T")


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
        self._called_s: dict[Claim, float] = {}
        self._unshown: dict[Claim, BegunRun] = {}  # as RUNNING, of those that were called
        self._advances: list[Advance] = []  # that are not written, as are these ends
        self._ends: list[EndedRun] = []

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
    def ending(self) -> list[int]:
        """Return the deliveries of the runs whose ends are not written yet."""
        return [it.run.timer_key for it in self._ends]

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

    def call(self, run: BegunRun, *, now_s: float) -> None:
        """Note that a run's function is called: its node is there."""
        self._without_node.discard(run.claim)
        self._called_s[run.claim], self._unshown[run.claim] = now_s, run

    def uncall(self, run: BegunRun) -> None:
        """Forget that a run's function was called: it was not, or another worker has the run."""
        self._called_s.pop(run.claim, None)
        self._unshown.pop(run.claim, None)

    def called_s(self, run: BegunRun, *, now_s: float) -> float | None:
        """Return how long ago a run's function was called; None: it was not."""
        began_s = self._called_s.get(run.claim)
        return None if began_s is None else now_s - began_s

    def is_unshown(self, run: BegunRun) -> bool:
        """Say whether a run was called, and neither that nor its end is written."""
        return run.claim in self._unshown

    def show(self, *, called_until_s: float) -> None:
        """Show the runs that were called before a moment as RUNNING."""
        for run in list(self._unshown.values()):
            if self._called_s[run.claim] <= called_until_s:
                self._show(run)

    def terminate(self, run: BegunRun, reason: str) -> None:
        """Note that a run is to end now."""
        if self.is_unshown(run):
            self._show(run)
        self._advances.append((run, JobState.TERMINATING.value, reason))

    def end(self, ended: EndedRun) -> None:
        """Note how a run has ended."""
        self._ends.append(ended)

    def advances(self, locked: Collection[Claim]) -> list[Advance]:
        """Return the first advance of each run that is not written, but of runs whose jobs are locked."""
        return _first_of_each((it for it in self._advances if it[0].claim not in locked), key=lambda it: it[0].claim)

    def advance(self, written: Collection[Advance], locked: Collection[Claim]) -> None:
        """Forget advances that were written, but for those of runs whose jobs are locked."""
        self._advances = [it for it in self._advances if it not in written or it[0].claim in locked]

    def ends(self, most: int, locked: Collection[Claim]) -> list[EndedRun]:
        """Return one end for each job among the first ends that are not written, but of runs whose jobs are locked."""
        first = (it for it in islice(self._ends, most) if it.run.claim not in locked)
        return _first_of_each(first, key=lambda it: it.run.job)

    def end_making(self, claim: Claim) -> None:
        """Note that a run is no longer under way."""
        self._live.pop(claim, None)
        self._making.pop(claim, None)
        self._without_node.discard(claim)

    def drop(self, runs: Sequence[BegunRun]) -> None:
        """Take runs out of the hand: Postgres has taken their ends."""
        claims = {run.claim for run in runs}
        self._ends = [it for it in self._ends if it.run.claim not in claims]
        self._advances = [it for it in self._advances if it[0].claim not in claims]
        for run in runs:
            self.uncall(run)
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

    def _show(self, run: BegunRun) -> None:
        del self._unshown[run.claim]
        self._advances.append((run, JobState.RUNNING.value, None))


def _first_of_each(items: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    first: dict[Hashable, T] = {}
    for it in items:
        first.setdefault(key(it), it)
    return list(first.values())
