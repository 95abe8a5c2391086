"""One turn of an engine: read signals, advance their instances, write the effects.

A signal that fails does not make other signals fail.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

from structlog.typing import FilteringBoundLogger

from shardclock_server.engine.advance import Advanced, cancels_start, definition_of
from shardclock_server.engine.batch import (
    BATCH_S,
    CALL_LIMITS,
    CallLimits,
    Signals,
    StepBatch,
    Unwritable,
    advance_all,
    sort_signals,
)
from shardclock_server.engine.broadcast import broadcast_all
from shardclock_server.engine.definitions import Definitions
from shardclock_server.engine.failed_signals import FailedSignals
from shardclock_server.engine.stats import EngineStats
from shardclock_server.engine.tenant_quotas import TenantQuotas
from shardclock_server.engine.tenant_scheduler import TenantScheduler
from shardclock_server.sql.bisection import write_in_halves
from shardclock_server.sql.claims.rows import retry_lost_races
from shardclock_server.sql.processes.apply import Writes, apply_steps
from shardclock_server.sql.processes.signals import (
    WHOLE,
    DueSignal,
    LaneCursor,
    LaneOrder,
    Stripe,
    correlate_waiting,
    read_due_signals,
)
from shardclock_server.sql.session import Session, StatementRefused, StoreTooSlow, StoreUnavailable

BATCH_FIRST = 16  # the first batch of a new engine is small, because a large batch may have killed the last engine


def _no_workers(count: int) -> None:
    pass


class SignalRunner:
    """Advance the instances in the slots of one engine, or in one stripe of these slots."""

    def __init__(
        self,
        session: Session,
        holder: int,
        stats: EngineStats,
        *,
        batch: int,
        log: FilteringBoundLogger,
        stripe: Stripe = WHOLE,
        notify_workers: Callable[[int], None] = _no_workers,
        calls: CallLimits = CALL_LIMITS,
    ) -> None:
        """Create a runner, which calls `notify_workers` with the number of new service tasks."""
        self._calls = calls
        self._session = session
        self._holder = holder
        self._stats = stats
        self._batch, self._batch_max = min(batch, BATCH_FIRST), batch
        self._stripe = stripe
        self._notify_workers = notify_workers
        self._definitions = Definitions()
        # After a failure these instances process one signal per turn, so that a signal that can't be processed fails
        # alone.
        self._one_by_one: set[int] = set()
        # The instances, by tenant, with signals that did not fit into a batch. They are skipped until all signals of
        # the tenant fit into one batch.
        self._skipped: dict[str, set[int]] = {}
        self._queue = TenantScheduler()
        self._quotas = TenantQuotas(session)
        self._next_tenant = ""  # The tenant after which the next search for lanes starts.
        # A cursor for each lane (the signals of one tenant). A lane has no ready signal before its cursor.
        self._behind: Mapping[str, LaneCursor] = {}
        # Keys: root instances. Values: the reason why the instances below this root may call no more instances.
        self._full: dict[int, str] = {}
        self._failed = FailedSignals(session, holder, definitions=self._definitions, stats=stats, log=log)

    async def turn(self) -> bool:
        """Process the due signals once; return whether any signal was due.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        try:
            done = await self._turn()
        except StoreUnavailable:
            # Perhaps the answer was too large for the timeout, so the next batch is smaller.
            self._batch = max(1, self._batch // 2)
            self._skipped.clear()  # a read past the signals of many skipped instances may take too long
            raise
        self._batch = min(self._batch_max, 2 * self._batch)
        return done

    async def _turn(self) -> bool:
        poll = await read_due_signals(
            self._session,
            self._holder,
            batch=self._batch,
            stripe=self._stripe,
            without=chain.from_iterable(self._skipped.values()),
            lanes=LaneOrder(self._queue.ahead_s(), self._next_tenant, self._behind),
        )
        # A lane from which this poll returned signals has no cursor. The next poll reads this lane from its start,
        # because an earlier signal may have become ready.
        self._behind = poll.behind
        is_round_over = bool(self._skipped or self._next_tenant or self._behind)
        self._next_tenant = poll.next_tenant
        if not poll.signals:
            self._skipped = {tenant: keys for tenant, keys in self._skipped.items() if tenant in poll.behind}
            return is_round_over or bool(poll.next_tenant or poll.behind)
        until_s = time.monotonic() + BATCH_S
        found = sort_signals(poll.signals, self._one_by_one)
        running = await self._load(found.running)
        # Advance the batch in a thread, because a model's expressions may take long and heartbeats must continue.
        batch = await asyncio.to_thread(
            advance_all, running, self._definitions, self._queue, calls_depth_max=self._calls.depth_max, full=self._full
        )
        # Forget the families that refused no start in this batch, so that the next call counts their instances again.
        self._full = batch.full
        self._skip_unfinished(batch, {signal.tenant_id for signal in poll.signals})
        done = await self._write_all(batch)
        broadcast = await broadcast_all(self._session, self._holder, found.thrown, self._queue, until_s=until_s)
        done |= broadcast.sent > 0
        done |= await self._defer(batch.failed + broadcast.failed)
        done |= await self._spend([signal.timer_key for signals in found.ended for signal in signals])
        return done

    def _skip_unfinished(self, batch: StepBatch, tenants: Collection[str]) -> None:
        """Skip instances with signals that did not fit into the batch.

        The instances are skipped until all signals of their tenant fit into one batch. While reads continue at a
        cursor, the instances are still skipped, because their earlier signals are before the cursor.
        """
        unfinished = batch.unfinished()
        for key in self._one_by_one & batch.advanced.keys():
            unfinished[batch.advanced[key].owner.tenant_id].add(key)
        kept = {
            tenant: keys
            for tenant, keys in self._skipped.items()
            if tenant in self._behind or (tenant in tenants and unfinished.get(tenant, keys))
        }
        self._skipped = kept | {tenant: kept.get(tenant, set()) | keys for tenant, keys in unfinished.items() if keys}

    async def _load(self, instances: Sequence[Signals]) -> list[Signals]:
        """Load the definitions of instances; return the instances with a loaded definition.

        Later batches take the other instances.
        """
        tenants: dict[int, str] = {}
        named: list[tuple[Signals, int | None]] = []
        for signals in instances:
            try:
                key = None if cancels_start(signals[0]) else definition_of(signals[0])
            except Exception:  # noqa: BLE001 - the signal fails alone later
                key = None
            if key is None:
                named.append((signals, None))
                continue
            tenants.setdefault(key, signals[0].tenant_id)
            named.append((signals, key))
        took_s = await self._definitions.load(self._session, tenants, budget_s=BATCH_S)
        for key, seconds in took_s.items():
            self._queue.charge(tenants[key], seconds)
        return [signals for signals, key in named if key is None or key in took_s]

    async def _write_all(self, batch: StepBatch) -> bool:
        """Write a batch, and add the time for each tenant's rows to the tenant's usage.

        Instances with a failed signal are written last, because their write may be slow.
        """
        began_s = time.monotonic()
        allowed = await self._within_quotas(batch)
        suspects, others = batch.suspects()
        written = await self._write(batch, allowed.of(others) if suspects else allowed)
        written += await self._write(batch, allowed.of(suspects)) if suspects else 0
        seconds = time.monotonic() - began_s
        for tenant, rows in batch.rows.items():
            self._queue.charge(tenant, seconds * rows / batch.rows.total())
        return bool(written)

    async def _within_quotas(self, batch: StepBatch) -> Writes:
        """Return the writes that are within the tenants' quotas; the instances of other writes wait."""
        now = max((signals[0].server_time for signals in batch.read.values()), default=None)
        if now is None or not (refused := await self._quotas.refused(batch.increases, now=now)):
            return batch.writes
        for key, error in refused.items():
            batch.failed.append((batch.advanced[key].signals or batch.read[key], error))
        return batch.writes.of([key for key in batch.advanced if key not in refused])

    async def _spend(self, timer_keys: list[int]) -> bool:
        """Delete signals to ended instances, except locked signals; return whether more such signals may exist."""
        if timer_keys:
            await apply_steps(self._session, self._holder, Writes(spent=timer_keys))
            self._stats.spent += len(timer_keys)
        return len(timer_keys) >= self._batch

    async def _write(self, batch: StepBatch, writes: Writes) -> int:
        """Write a batch; return the number of written instances.

        After a failure the batch is divided, until the faulty instance is in a separate batch.
        """
        if not (keys := [row["instance_key"] for row in writes.steps]):
            return 0

        async def alone(key: int, error: Unwritable) -> int:
            batch.failed.append((batch.advanced[key].signals or batch.read[key], error.reason))
            return 0

        write = partial(self._write_part, batch, writes)
        return sum(await write_in_halves(keys, write, alone, Unwritable.of, batch.parts_of))

    async def _write_part(self, batch: StepBatch, writes: Writes, keys: Sequence[int]) -> int:
        if len(keys) < len(writes.steps):
            writes = writes.of(keys)
        apply = partial(apply_steps, self._session, self._holder, writes, descendants_max=self._calls.descendants_max)
        try:
            # A key from the sequence may exist already, if an operator has set the sequence back.
            written, full = await retry_lost_races(self._session, apply)
        except (StatementRefused, StoreTooSlow, RecursionError, TypeError, ValueError) as error:
            if isinstance(error, StatementRefused) and not error.are_values_at_fault:
                raise StoreUnavailable(f"Postgres refuses an engine's statement: {error}") from error
            raise Unwritable(error) from error
        self._full |= full
        self._stats.conflicts += len(keys) - len(written)
        await self._follow_up({key: batch.advanced[key] for key in written})
        return len(written)

    async def _follow_up(self, written: Mapping[int, Advanced]) -> None:
        """Count written instances, notify workers of service tasks, and correlate kept messages."""
        self._one_by_one.difference_update(written)
        self._stats.count(list(written.values()))
        self._notify_workers(sum(done.outbox.service_tasks for done in written.values()))
        if waiting := [key for key, done in written.items() if done.outbox.awaits_messages]:
            await correlate_waiting(self._session, waiting)

    async def _defer(self, failed: Iterable[tuple[Signals, Exception]]) -> bool:
        """Defer signals that can't be processed.

        If an instance has several signals, first find the signal that fails.
        """
        singles: list[tuple[DueSignal, Exception]] = []
        done = False
        for (first, *others), error in failed:
            if others:
                self._one_by_one.add(first.instance_key)
                done = True
            else:
                singles.append((first, error))
        return await self._failed.defer(singles) or done
