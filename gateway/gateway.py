"""The parts of one gateway, and the places of callers that wait at it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Self, TypeVar

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
from shardclock_server.gateway.waits.long_polls import LongPolls
from shardclock_server.gateway.waits.task_lines import TaskLines
from shardclock_server.gateway.waits.timer_ends import TimerEnds
from shardclock_server.sql.hint_sender import HintSender
from shardclock_server.sql.pool import Pool

AT_ONCE = timedelta(seconds=0.1)  # what is due later is found by a shard that nobody tells (`ShardSettings.poll_s`)


T = TypeVar("T")


@dataclass(slots=True)
class WaitPlace:
    """A place of a waiting caller, for a block, or for longer if an answer that comes later keeps it."""

    places: Places
    standing: Standing
    is_kept: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or not self.is_kept:
            self.leave()

    def kept(self) -> Self:
        """Keep the place after the block, unless the block raises an error."""
        self.is_kept = True
        return self

    def leave(self) -> None:
        """Free the place."""
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
    long_polls: LongPolls
    stream_places: Places
    wait_places: Places  # for ends, of timers and instances
    task_wait_places: Places
    models: WorkThread
    previews: WorkThread
    intake: Intake  # of bodies of many lines
    unsent: Unsent
    stopping: asyncio.Event  # set when all streams are to end

    def stop_waits(self) -> None:
        """End all waits and streams: the gateway stops."""
        self.stopping.set()
        for waits in (self.timer_ends, self.instance_ends, self.task_lines, self.long_polls):
            waits.stop()

    def tell_shards(self, due_dates: Iterable[datetime | None]) -> None:
        """Tell shards to look at once, if a timer is due before they would by themselves; None: it is due now.

        This goes by the clock of this machine: a wrong one costs a poll.
        """
        soon = datetime.now(UTC) + AT_ONCE
        if any(due_date is None or due_date <= soon for due_date in due_dates):
            self.due_hints.want(1)

    async def take_place(self, tenant_id: str, places: Places) -> WaitPlace:
        """Take one of the places for waiting callers, and one of those that the caller's tenant may have.

        errors:  Problem           there is none
                 StoreUnavailable  the tenant's limit can't be read now
        """
        places.take(tenant_id)
        try:
            return WaitPlace(places, await self.quotas.take_waiter(tenant_id))
        except BaseException:
            places.leave(tenant_id)
            raise

    async def poll(
        self, look: Callable[[], Awaitable[T | None]], request: Request, tenant_id: str, *, within_s: float | None
    ) -> T | None:
        """Look until something is found, the time is over, the gateway stops, or the client has disconnected.

        A wait has one of the places for clients that follow the log, because it asks Postgres as often.

        shape:   None: nothing was found
        errors:  Problem           there is no place
                 StoreUnavailable  of `look`
        """
        found = await look()
        if found is not None or not within_s:
            return found
        with await self.take_place(tenant_id, self.stream_places):
            return await self.long_polls.find(look, request.receive, within_s=within_s)


def gateway_of(request: Request) -> Gateway:
    """Find the gateway that a request came to."""
    gateway: Gateway = request.app.state.gateway
    return gateway


Here = Annotated[Gateway, Depends(gateway_of)]
