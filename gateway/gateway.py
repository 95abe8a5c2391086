"""The pools, limits and queues of one gateway, and the slots of callers that wait."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Self, TypeVar

from fastapi import Depends
from starlette.requests import Request

from shardclock_server.gateway.combining import Combiner
from shardclock_server.gateway.limits.body_budget import BodyBudget
from shardclock_server.gateway.limits.concurrency import ConcurrencyLimit
from shardclock_server.gateway.limits.quotas import Quotas
from shardclock_server.gateway.limits.refused_quotas import RefusedQuotas
from shardclock_server.gateway.limits.unsent import UnsentBytes
from shardclock_server.gateway.limits.usage import TenantUsage
from shardclock_server.gateway.limits.wait_limits import WaitLimits
from shardclock_server.gateway.limits.work_thread import WorkThread
from shardclock_server.gateway.oidc.single_sign_on import SingleSignOn
from shardclock_server.gateway.requests.callers import Anyone, KeyHolders
from shardclock_server.gateway.settings import GatewaySettings
from shardclock_server.gateway.waits.changes import LogChanges
from shardclock_server.gateway.waits.instance_ends import InstanceEnds
from shardclock_server.gateway.waits.long_polls import LongPolls
from shardclock_server.gateway.waits.task_waiters import TaskWaiters
from shardclock_server.gateway.waits.timer_ends import TimerEnds
from shardclock_server.sql.claims.notifications import SHARD_POLL_S
from shardclock_server.sql.notification_sender import NotificationSender
from shardclock_server.sql.pool import Pool

T = TypeVar("T")


@dataclass(slots=True)
class WaitSlot:
    """A waiting caller's slot.

    The end of the `with` block frees the slot; after `kept`, a deferred response frees it.
    """

    limit: ConcurrencyLimit
    usage: TenantUsage
    is_kept: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or not self.is_kept:
            self.release()

    def kept(self) -> Self:
        """Keep the slot after the block, unless the block raises an error."""
        self.is_kept = True
        return self

    def release(self) -> None:
        """Free the slot."""
        self.limit.release(self.usage.tenant_id)
        self.usage.waiting -= 1


@dataclass(frozen=True, slots=True)
class Gateway:
    """The pools, limits and queues that all requests of one gateway share."""

    settings: GatewaySettings
    pool: Pool
    health_pool: Pool  # a separate session, so that the health check works while all other sessions are in use
    combiner: Combiner
    callers: Anyone | KeyHolders
    single_sign_on: SingleSignOn | None  # None: people sign in with keys only.
    quotas: Quotas
    refused_quotas: RefusedQuotas
    signal_notifications: NotificationSender  # Notifies engines.
    due_notifications: NotificationSender  # Notifies shards.
    timer_ends: TimerEnds
    instance_ends: InstanceEnds
    task_waiters: TaskWaiters
    long_polls: LongPolls
    changes: LogChanges  # Waits of the console's pages for new records of the log.
    operation_begun: asyncio.Event  # The event is set when this gateway starts an operation.
    wait_limits: WaitLimits
    models: WorkThread
    previews: WorkThread
    body_budget: BodyBudget  # limits the bytes of bodies with many timers
    unsent: UnsentBytes
    stopping: asyncio.Event  # the event is set when all streams must end

    def stop_waits(self) -> None:
        """End all waits and streams, because the gateway stops."""
        self.stopping.set()
        for waits in (self.timer_ends, self.instance_ends, self.task_waiters, self.long_polls, self.changes):
            waits.stop()

    def notify_shards(self, due_dates: Iterable[datetime | None]) -> None:
        """Notify shards if a timer is due before their next poll; None: the timer is due now.

        The comparison uses this machine's clock. If the clock is wrong, a timer may wait until the shards' next poll.
        """
        soon = datetime.now(UTC) + timedelta(seconds=SHARD_POLL_S)
        if any(due_date is None or due_date <= soon for due_date in due_dates):
            self.due_notifications.want(1)

    async def acquire_wait_slot(self, tenant_id: str, limit: ConcurrencyLimit) -> WaitSlot:
        """Acquire a slot for a waiting caller: one of the gateway's slots and one of the tenant's slots.

        errors:  Problem           no slot is free
                 StoreUnavailable  the tenant's limit can't be read now
        """
        limit.acquire(tenant_id)
        try:
            return WaitSlot(limit, await self.quotas.take_waiter(tenant_id))
        except BaseException:
            limit.release(tenant_id)
            raise

    async def poll(
        self, read: Callable[[], Awaitable[T | None]], request: Request, tenant_id: str, *, within_s: float | None
    ) -> T | None:
        """Call `read` until it returns a result, the time is over, the gateway stops, or the client disconnects.

        A wait needs one of the slots for streams, because a wait reads Postgres as often as a stream does.

        shape:   None: `read` returned no result
        errors:  Problem           no slot is free
                 StoreUnavailable  from `read`
        """
        found = await read()
        if found is not None or not within_s:
            return found
        with await self.acquire_wait_slot(tenant_id, self.wait_limits.streams):
            return await self.long_polls.find(read, request.receive, within_s=within_s)


def gateway_of(request: Request) -> Gateway:
    """Return the gateway that serves a request."""
    gateway: Gateway = request.app.state.gateway
    return gateway


CurrentGateway = Annotated[Gateway, Depends(gateway_of)]
