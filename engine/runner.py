"""One turn of an engine: take signals, advance their instances, write what follows. What can't be taken fails alone."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

from structlog.typing import FilteringBoundLogger

from shardclock_server.engine.advancing import Advanced, begun_stopped, cancels_start, definition_of
from shardclock_server.engine.batches import (
    BATCH_S,
    CALL_LIMITS,
    Batch,
    CallLimits,
    CanceledUnbegun,
    Signals,
    Unwritable,
    advance_all,
    sort_signals,
)
from shardclock_server.engine.definitions import Definitions, Gone
from shardclock_server.engine.fair_queue import FairQueue
from shardclock_server.engine.inbox import said_by
from shardclock_server.engine.put_off_log import PutOffLog
from shardclock_server.engine.putting_off import PutOff, put_off_after
from shardclock_server.engine.quotas import TenantQuotas
from shardclock_server.engine.spreading import spread_all
from shardclock_server.engine.stats import EngineStats
from shardclock_server.sql.claims.rows import retry_lost_races
from shardclock_server.sql.halves import write_in_halves
from shardclock_server.sql.processes.apply import Writes, apply_steps
from shardclock_server.sql.processes.signals import (
    WHOLE,
    DueSignal,
    Lanes,
    Place,
    Stripe,
    cancel_start,
    correlate_waiting,
    put_off_signals,
    read_due_signals,
)
from shardclock_server.sql.session import Session, StatementRefused, StoreLocked, StoreTooSlow, StoreUnavailable

BATCH_FIRST = 16  # of a new engine: the one before may have died of a large batch


def _nobody(count: int) -> None:
    pass


class SignalRunner:
    """Advance the instances of one engine's slots, or of one stripe of them."""

    def __init__(
        self,
        session: Session,
        holder: int,
        stats: EngineStats,
        *,
        batch: int,
        log: FilteringBoundLogger,
        stripe: Stripe = WHOLE,
        tell_workers: Callable[[int], None] = _nobody,
        calls: CallLimits = CALL_LIMITS,
    ) -> None:
        """Keep what every turn uses; `tell_workers` is called with the number of new service tasks."""
        self._calls = calls
        self._session = session
        self._holder = holder
        self._stats = stats
        self._batch, self._batch_max = min(batch, BATCH_FIRST), batch
        self._stripe = stripe
        self._tell_workers = tell_workers
        self._definitions = Definitions()
        # Instances of which one of several signals failed: they take one a turn, so that the faulty one fails alone.
        self._one_by_one: set[int] = set()
        # Instances with more signals than one batch has time for, by tenant. They are left out until a batch cuts no
        # instance of the tenant.
        self._left_out: dict[str, set[int]] = {}
        self._queue = FairQueue()
        self._quotas = TenantQuotas(session)
        self._next_tenant = ""  # where the next search for lanes begins
        self._behind: Mapping[str, Place] = {}  # how far lanes were read in which every signal waits
        # Families in which as many instances live as may, by their root, with the reason.
        self._full: dict[int, str] = {}
        self._put_off_log = PutOffLog(log)

    async def turn(self) -> bool:
        """Take the signals that are due, once; return whether something came of it.

        errors:  StoreUnavailable  the outcome is unknown: take a turn again
        """
        try:
            done = await self._turn()
        except StoreUnavailable:
            # What is too large for one answer in time is taken in smaller parts.
            self._batch = max(1, self._batch // 2)
            self._left_out.clear()  # to read past all of theirs may be what takes too long
            raise
        self._batch = min(self._batch_max, 2 * self._batch)
        return done

    async def _turn(self) -> bool:
        poll = await read_due_signals(
            self._session,
            self._holder,
            batch=self._batch,
            stripe=self._stripe,
            without=chain.from_iterable(self._left_out.values()),
            lanes=Lanes(self._queue.ahead_s(), self._next_tenant, self._behind),
        )
        # A lane in which something was found is read from its beginning again: a signal there may wait no longer.
        self._behind = poll.behind
        is_round_over = bool(self._left_out or self._next_tenant or self._behind)
        self._next_tenant = poll.next_tenant
        if not poll.signals:
            self._left_out = {tenant: keys for tenant, keys in self._left_out.items() if tenant in poll.behind}
            return is_round_over or bool(poll.next_tenant or poll.behind)
        until_s = time.monotonic() + BATCH_S
        found = sort_signals(poll.signals, self._one_by_one)
        going = await self._load(found.going)
        # In a thread, so that heartbeats go on however long a model's expressions take.
        batch = await asyncio.to_thread(
            advance_all, going, self._definitions, self._queue, calls_depth_max=self._calls.depth_max, full=self._full
        )
        # When no start is refused any more, the next call is counted again.
        self._full = batch.full
        self._leave_out_cut(batch, {signal.tenant_id for signal in poll.signals})
        done = await self._write_all(batch)
        spread = await spread_all(self._session, self._holder, found.thrown, self._queue, until_s=until_s)
        done |= spread.sent > 0
        done |= await self._put_off(batch.failed + spread.failed)
        done |= await self._spend([signal.timer_key for signals in found.ended for signal in signals])
        return done

    def _leave_out_cut(self, batch: Batch, tenants: Collection[str]) -> None:
        """Leave out the instances that were cut, until a batch cuts no instance of their tenant.

        While a tenant's lane is read from a place on, they stay left out: their earlier signals are before that place.
        """
        cut = batch.cut()
        for key in self._one_by_one & batch.advanced.keys():
            cut[batch.advanced[key].owner.tenant_id].add(key)
        kept = {
            tenant: keys
            for tenant, keys in self._left_out.items()
            if tenant in self._behind or (tenant in tenants and cut.get(tenant, keys))
        }
        self._left_out = kept | {tenant: kept.get(tenant, set()) | keys for tenant, keys in cut.items() if keys}

    async def _load(self, instances: Sequence[Signals]) -> list[Signals]:
        """Load the definitions of instances; leave the instances for which there is no time to another batch."""
        tenants: dict[int, str] = {}
        named: list[tuple[Signals, int | None]] = []
        for signals in instances:
            try:
                key = None if cancels_start(signals[0]) else definition_of(signals[0])
            except Exception:  # noqa: BLE001 - it fails alone when it is taken
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

    async def _write_all(self, batch: Batch) -> bool:
        """Write a batch, and charge each tenant for its share of the time.

        Instances with a signal that has failed before come last: one that takes too long delays itself alone.
        """
        began_s = time.monotonic()
        has_room = await self._with_room(batch)
        suspects, others = batch.suspects()
        written = await self._write(batch, has_room.of(others) if suspects else has_room)
        written += await self._write(batch, has_room.of(suspects)) if suspects else 0
        seconds = time.monotonic() - began_s
        for tenant, rows in batch.rows.items():
            self._queue.charge(tenant, seconds * rows / batch.rows.total())
        return bool(written)

    async def _with_room(self, batch: Batch) -> Writes:
        """Return the writes that fit into the quotas of tenants; the other instances wait."""
        now = max((signals[0].server_time for signals in batch.read.values()), default=None)
        if now is None or not (refused := await self._quotas.refused(batch.needs, now=now)):
            return batch.writes
        for key, error in refused.items():
            batch.failed.append((batch.advanced[key].signals or batch.read[key], error))
        return batch.writes.of([key for key in batch.advanced if key not in refused])

    async def _spend(self, timer_keys: list[int]) -> bool:
        """Take away signals to instances that have ended, but not what is locked; say whether there may be more."""
        if timer_keys:
            await apply_steps(self._session, self._holder, Writes(spent=timer_keys))
            self._stats.spent += len(timer_keys)
        return len(timer_keys) >= self._batch

    async def _write(self, batch: Batch, writes: Writes) -> int:
        """Write a batch; divide one that can't be written, until the fault stands alone. Return how many were."""
        if not (keys := [row["instance_key"] for row in writes.steps]):
            return 0

        async def alone(key: int, error: Unwritable) -> int:
            batch.failed.append((batch.advanced[key].signals or batch.read[key], error.reason))
            return 0

        write = partial(self._write_part, batch, writes)
        return sum(await write_in_halves(keys, write, alone, Unwritable.of, batch.parts_of))

    async def _write_part(self, batch: Batch, writes: Writes, keys: Sequence[int]) -> int:
        if len(keys) < len(writes.steps):
            writes = writes.of(keys)
        apply = partial(apply_steps, self._session, self._holder, writes, descendants_max=self._calls.descendants_max)
        try:
            # A key of the sequence may be taken, if somebody has set it back.
            written, full = await retry_lost_races(self._session, apply)
        except (StatementRefused, StoreTooSlow, RecursionError, TypeError, ValueError) as error:
            if isinstance(error, StatementRefused) and not error.are_values_at_fault:
                raise StoreUnavailable(f"the server does not take what an engine writes: {error}") from error
            raise Unwritable(error) from error
        self._full |= full
        self._stats.conflicts += len(keys) - len(written)
        await self._follow_up({key: batch.advanced[key] for key in written})
        return len(written)

    async def _follow_up(self, written: Mapping[int, Advanced]) -> None:
        """Count what was written, and tell of it whoever waits: workers, and messages that are kept."""
        self._one_by_one.difference_update(written)
        self._stats.count(list(written.values()))
        self._tell_workers(sum(done.outbox.service_tasks for done in written.values()))
        if waiting := [key for key, done in written.items() if done.outbox.awaits_messages]:
            await correlate_waiting(self._session, waiting)

    async def _put_off(self, failed: Iterable[tuple[Signals, Exception]]) -> bool:
        """Put off signals that can't be taken; of several of one instance, first find which it is.

        A model may have thousands of instances: signals that are put off alike go in one statement.
        """
        done, is_locked, until_s = False, False, time.monotonic() + BATCH_S
        alike: defaultdict[PutOff, list[DueSignal]] = defaultdict(list)
        for (first, *others), error in failed:
            if others:
                self._one_by_one.add(first.instance_key)
                done = True
                continue
            is_unbegun = isinstance(error, CanceledUnbegun)
            # The other signals are due in the next turn.
            if (is_unbegun and is_locked) or time.monotonic() > until_s:
                continue
            try:
                if is_unbegun and await cancel_start(self._session, first.instance_key, signal_key=first.timer_key):
                    done = True  # the signal is spent in the next turn, as any that comes after the end
                    continue
            except (StoreLocked, StoreTooSlow):
                is_locked = True  # somebody's transaction is about starts: they are tried again in the next turn
                continue
            except StatementRefused as refusal:
                error = refusal  # noqa: PLW2901 - by this the signal is put off
            how = put_off_after(error, first.failed_attempts)
            if how.is_last_try and first.is_first and await self._begin_stopped(first, how.reason):
                done = True
                continue
            alike[how].append(first)
        for how, signals in alike.items():
            outcome = await put_off_signals(
                self._session,
                self._holder,
                [signal.timer_key for signal in signals],
                reason=how.reason,
                delay_s=how.delay_s,
                tries_max=how.tries_max,
                is_told=how.is_told,
            )
            self._stats.given_up += sum(outcome.values())
            self._put_off_log.tell(how, signals, outcome)
            done |= bool(outcome)
        return done

    async def _begin_stopped(self, first: DueSignal, reason: str) -> bool:
        """Begin an instance with an incident, because its start can't be written; False: that can't be written either.

        A called process has no incident of its own: its caller is told.
        """
        try:
            if said_by(first).get("parent") is not None:
                return False
            key = definition_of(first)
            sentence = f"its start can't be written: {reason}; correct the variables or the model, and resolve this"
            stopped = begun_stopped(first, self._definitions.get(key, first.tenant_id), key, sentence)
            written, _ = await apply_steps(self._session, self._holder, stopped.writes())
        except (Gone, ValueError, TypeError, RecursionError, StatementRefused):
            return False
        if written:
            self._stats.count([stopped])
        return bool(written)
