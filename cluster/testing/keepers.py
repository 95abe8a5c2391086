"""The shard, the worker and the engine of a test cluster own all slots, and work only when `step` is called."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from shardclock.log.record import SIGNAL
from shardclock_server.cluster.testing.app import AppHere
from shardclock_server.cluster.testing.webhooks import EVERYWHERE, WebhookBook
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.engine.stepped import SteppedEngine
from shardclock_server.keepers.clock import PostgresClock
from shardclock_server.keepers.life import new_incarnation
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.stepped import SteppedShard
from shardclock_server.sql.clock.begin import begin_one_or_more
from shardclock_server.sql.clock.moved import NextDue
from shardclock_server.sql.cluster.holders import ENGINE, SHARD, WORKER, Incarnation, assign
from shardclock_server.sql.cluster.leadership import lead
from shardclock_server.sql.session import Session
from shardclock_server.workers.dependencies import Dependencies
from shardclock_server.workers.in_process import InProcessHandler, InProcessRun
from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.stepped import SteppedWorker

# The name of the installation that owns the database. If a cluster of another installation connects by mistake, it
# fires no timers: docs/decisions/0016-a-copy-does-not-fire.md.
IDENTITY = "shardclock.testing"
JOB, LOG = "job:", "log"  # The prefix of the targets of jobs, and the target that calls nothing.
# A worker measures leases in real time, even while a debugger stops the handler. So the lease is an hour.
LEASE_S = 3_600.0
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Keepers:
    """The shard, the worker and the engine of one cluster."""

    shard: SteppedShard
    worker: SteppedWorker
    engine: SteppedEngine
    book: WebhookBook

    async def step(self, due: NextDue) -> None:
        """Fire the timer if it has not fired yet; then run a step of the keeper that handles the timer's target."""
        if not due.claims and not due.fired:
            await self.shard.step(due.slot)
        if due.target == SIGNAL:
            await self.engine.step()
        elif due.target.startswith(JOB):
            await self.worker.step_runs()
        elif due.target != LOG:
            await self.worker.step()

    async def finish(self) -> None:
        """Wait for the calls that a cancelled step has not finished."""
        await self.worker.finish()


@asynccontextmanager
async def keeping(
    dsn: str, session: Session, app: AppHere, book: WebhookBook, chance: random.Random
) -> AsyncIterator[Keepers]:
    """Run a database's only keepers during a block."""
    keepers = Keepers(_shard(dsn), _worker(dsn, app, book, chance), _engine(dsn), book)
    try:
        await keepers.shard.begin()
        await keepers.worker.begin()
        await keepers.engine.begin()
        await _assign_all(session, keepers)
        yield keepers
    finally:
        await asyncio.gather(keepers.engine.end(), keepers.worker.end(), keepers.shard.end())


async def _assign_all(session: Session, keepers: Keepers) -> None:
    """Assign all slots to each keeper, as a leading coordinator does."""
    leader = keepers.shard.holder
    leading = await lead(session, leader, cluster_id=IDENTITY, lease_s=LEASE_S, fresh=True, identity=IDENTITY)
    parts = {keepers.shard.holder: 0, keepers.worker.holder: 0, keepers.engine.holder: 0}
    assigned = await assign(session, leader=leader, term=leading.term, parts=parts, part_count=1)
    assert assigned, "a new database has no other leader"


def _shard(dsn: str) -> SteppedShard:
    settings = ShardSettings(identity=IDENTITY, statement_timeout_s=TIMEOUT_S)
    return SteppedShard(_incarnation(SHARD), settings, dsn, clock=_clock())


def _worker(dsn: str, app: AppHere, book: WebhookBook, chance: random.Random) -> SteppedWorker:
    settings = WorkerSettings(
        identity=IDENTITY,
        delivery_lease_s=LEASE_S,
        run_lease_s=LEASE_S,
        statement_timeout_s=TIMEOUT_S,
        webhook_http=True,
        webhook_allow=EVERYWHERE,
    )
    return SteppedWorker(
        _incarnation(WORKER),
        settings,
        app.unpaced_specs,
        dsn,
        jobs=app.job_specs,
        start=partial(InProcessHandler, handlers=app.handlers),
        start_run=partial(InProcessRun, jobs=app.jobs),
        dependencies=Dependencies(_clock(), chance.uniform, book.send, prefetch_max=0, begin_runs=begin_one_or_more),
    )


def _engine(dsn: str) -> SteppedEngine:
    settings = EngineSettings(identity=IDENTITY, statement_timeout_s=TIMEOUT_S, signal_stripes=1)
    return SteppedEngine(_incarnation(ENGINE), settings, dsn)


def _clock() -> PostgresClock:
    """Create a clock that always shows the time of Postgres's last answer."""
    return PostgresClock(monotonic=lambda: 0.0)


def _incarnation(role: str) -> Incarnation:
    return new_incarnation(role, IDENTITY, IDENTITY, identity=IDENTITY, node_id=IDENTITY)
