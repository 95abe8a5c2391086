"""The parts of one gateway, and how a caller waits at it."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from shardclock_server.gateway.combining import Combiner
from shardclock_server.gateway.limits.intake import Intake
from shardclock_server.gateway.limits.places import Places
from shardclock_server.gateway.limits.quotas import Quotas
from shardclock_server.gateway.limits.standing import Standing
from shardclock_server.gateway.limits.unsent import Unsent
from shardclock_server.gateway.limits.work_thread import WorkThread
from shardclock_server.gateway.requests.callers import Callers
from shardclock_server.gateway.settings import GatewaySettings
from shardclock_server.gateway.waits.instance_ends import InstanceEnds
from shardclock_server.gateway.waits.task_lines import TaskLines
from shardclock_server.gateway.waits.timer_ends import TimerEnds
from shardclock_server.sql.hint_sender import HintSender
from shardclock_server.sql.pool import Pool

AT_ONCE = timedelta(seconds=0.1)  # what is due later is found by a shard that nobody tells (`ShardSettings.poll_s`)


@dataclass(frozen=True, slots=True)
class WaitPlace:
    """A place of a caller who waits."""

    places: Places
    standing: Standing

    def leave(self) -> None:
        """Leave it to others."""
        self.places.leave(self.standing.tenant_id)
        self.standing.waiting -= 1


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts of one gateway, each shared by all its requests."""

    settings: GatewaySettings
    pool: Pool
    health_pool: Pool  # one session, for whoever asks whether it is ready while all others are in use
    combiner: Combiner
    callers: Callers
    quotas: Quotas
    signal_hints: HintSender  # to engines
    due_hints: HintSender  # to shards
    timer_ends: TimerEnds
    instance_ends: InstanceEnds
    task_lines: TaskLines
    stream_places: Places
    wait_places: Places  # for ends, of timers and instances
    task_wait_places: Places
    models: WorkThread
    previews: WorkThread
    intake: Intake  # of bodies of many lines
    unsent: Unsent
    stopping: asyncio.Event  # set when nobody is to wait any longer

    def stop_waits(self) -> None:
        """Let nobody wait any longer: the gateway ends."""
        self.stopping.set()
        for waits in (self.timer_ends, self.instance_ends, self.task_lines):
            waits.wake_all()

    def tell_shards(self, due_dates: Iterable[datetime | None]) -> None:
        """Tell shards to look at once, if a timer is due before they would by themselves; None: it is due now.

        This goes by the clock of this machine: a wrong one costs a poll.
        """
        soon = datetime.now(UTC) + AT_ONCE
        if any(due_date is None or due_date <= soon for due_date in due_dates):
            self.due_hints.want(1)

    @asynccontextmanager
    async def waiting_of(self, tenant_id: str, places: Places) -> AsyncIterator[None]:
        """Have one of the places for callers who wait, and one of those that the caller's tenant may have.

        errors:  Problem           there is none
                 StoreUnavailable  nobody can tell now how many the tenant may have
        """
        async with self.wait_place(tenant_id, places) as place:
            yield
        place.leave()

    @asynccontextmanager
    async def wait_place(self, tenant_id: str, places: Places) -> AsyncIterator[WaitPlace]:
        """Take such a place, and keep it after the block; an error within the block frees it.

        errors:  Problem           there is none
                 StoreUnavailable  nobody can tell now how many the tenant may have
        """
        places.take(tenant_id)
        try:
            place = WaitPlace(places, await self.quotas.take_waiter(tenant_id))
        except BaseException:
            places.leave(tenant_id)
            raise
        try:
            yield place
        except BaseException:
            place.leave()
            raise


def gateway_of(request: Request) -> Gateway:
    """Find the gateway that a request came to."""
    gateway: Gateway = request.app.state.gateway
    return gateway


Here = Annotated[Gateway, Depends(gateway_of)]
