"""One turn of an engine: take signals, advance their instances, write what follows. What can't be taken fails alone."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from structlog.typing import FilteringBoundLogger

from bpmn.step import StateTooNew
from engine.advancing import Advanced, advance_by, definition_of
from engine.definitions import Definitions, Gone, ModelRefused
from engine.inbox import UnknownKind
from engine.stats import EngineStats
from keepers.loops import one_line
from sql.backoff import Backoff
from sql.claims.rows import retry_lost_races
from sql.processes.apply import Writes, apply_steps
from sql.processes.signals import ONLY, Lane, TakenSignal, correlate_waiting, fail_signals, take_signals
from sql.session import Session, StatementRefused, StoreTooSlow, StoreUnavailable

TRIES_MAX, NEVER = 5, 2**31 - 1
RETRY_S = 0.5
SLOW = Backoff(1.0, 60.0)  # the server may be faster later, so what takes it too long is never given up
BATCH_FIRST = 16  # of a new engine: the one before may have died of a large batch
TOO_NEW = (ModelRefused, UnknownKind, StateTooNew)  # this release can't read it; a newer engine may
TOO_NEW_TRIES_MAX = 2_885  # with SLOW's pauses two days, in which an upgrade ends; then the instance has an incident
TOLD_MAX = 1_000  # reasons of which it is known that they are in the log
BATCH_S = 0.25  # after so long a batch is written, and the rest of its signals are taken again

Signals = Sequence[TakenSignal]


@dataclass(slots=True)
class Batch:
    """What became of the signals of one turn in memory."""

    writes: Writes = field(default_factory=Writes)
    read: dict[int, Signals] = field(default_factory=dict)
    advanced: dict[int, Advanced] = field(default_factory=dict)
    failed: list[tuple[Signals, Exception]] = field(default_factory=list)


def _nobody(count: int) -> None:
    pass


class SignalRunner:
    """Advance the instances of one engine's slots, or of one lane of them."""

    def __init__(
        self,
        session: Session,
        holder: int,
        stats: EngineStats,
        *,
        batch: int,
        log: FilteringBoundLogger,
        lane: Lane = ONLY,
        tell_workers: Callable[[int], None] = _nobody,
    ) -> None:
        """Keep what every turn uses; `tell_workers` is called with the number of new service tasks."""
        self._session = session
        self._holder = holder
        self._stats = stats
        self._batch, self._batch_max = min(batch, BATCH_FIRST), batch
        self._log = log
        self._lane = lane
        self._tell_workers = tell_workers
        self._definitions = Definitions()
        # Instances one of whose signals failed beside others: they take one a turn, so that the one at fault fails alone.
        self._one_by_one: set[int] = set()
        # Instances with more signals than one batch has time for. They are left out until a batch cuts nobody.
        self._rested: set[int] = set()
        self._told: set[str] = set()  # why signals were left to a newer engine; each is logged once

    async def turn(self) -> bool:
        """Take the signals that are due, once; return whether something came of it.

        errors:  StoreUnavailable  the outcome is unknown: take a turn again
        """
        try:
            done = await self._turn()
        except StoreUnavailable:
            # What is too large for one answer in time is taken in smaller parts.
            self._batch = max(1, self._batch // 2)
            raise
        self._batch = min(self._batch_max, 2 * self._batch)
        return done

    async def _turn(self) -> bool:
        taken = await take_signals(
            self._session, self._holder, batch=self._batch, lane=self._lane, without=self._rested
        )
        if not taken:
            is_round_over = bool(self._rested)
            self._rested.clear()
            return is_round_over
        by_instance: dict[int, list[TakenSignal]] = {}
        for signal in taken:
            earlier = by_instance.setdefault(signal.instance_key, [])
            if not earlier or signal.instance_key not in self._one_by_one:
                earlier.append(signal)
        ended = [signals for signals in by_instance.values() if signals[0].has_ended]
        going = [signals for signals in by_instance.values() if not signals[0].has_ended]
        await self._load(going)
        # In a thread, so that heartbeats go on however long a model's expressions take.
        batch = await asyncio.to_thread(self._advance_all, going)
        self._rest(batch)
        done = await self._spend([signal.timer_key for signals in ended for signal in signals])
        done |= bool(await self._write(batch, batch.writes))
        for signals, error in batch.failed:
            if not isinstance(error, TOO_NEW):
                done |= await self._fail(signals, error)
        done |= await self._leave_to_newer([it for it in batch.failed if isinstance(it[1], TOO_NEW)])
        return done

    def _rest(self, batch: Batch) -> None:
        """Leave out those that were cut, until a batch cuts nobody."""
        cut = {key for key, done in batch.advanced.items() if len(done.signals) < len(batch.read[key])}
        cut |= self._one_by_one & batch.advanced.keys()
        if cut:
            self._rested |= cut
        else:
            self._rested.clear()

    async def _load(self, instances: Iterable[Signals]) -> None:
        keys = set()
        for first, *_ in instances:
            try:
                keys.add(definition_of(first))
            except Exception:  # noqa: BLE001, S112 - it fails alone when it is taken
                continue
        await self._definitions.load(self._session, keys)

    def _advance_all(self, instances: Iterable[Signals]) -> Batch:
        batch, began_s = Batch(), time.monotonic()
        for signals in instances:
            try:
                done = self._advance(signals)
                batch.writes.add(done.writes())
                batch.advanced[signals[0].instance_key] = done
                batch.read[signals[0].instance_key] = signals
            except Exception as error:  # noqa: BLE001 - whatever one instance does, the others go on
                batch.failed.append((signals, error))
            if time.monotonic() - began_s > BATCH_S:
                break
        return batch

    def _advance(self, signals: Signals) -> Advanced:
        first = signals[0]
        if first.version is None and not first.is_first:
            raise Gone(f"there is no instance {first.instance_key}")
        key = definition_of(first)
        return advance_by(signals, self._definitions.get(key, first.tenant_id), key)

    async def _spend(self, timer_keys: list[int]) -> bool:
        """Take away signals to instances that have ended."""
        if timer_keys:
            await apply_steps(self._session, self._holder, Writes(spent=timer_keys))
            self._stats.spent += len(timer_keys)
        return bool(timer_keys)

    async def _write(self, batch: Batch, writes: Writes) -> int:
        """Write a batch; halve one that can't be written, until what is at fault stands alone. Return how many were."""
        keys = [row["instance_key"] for row in writes.steps]
        if not keys:
            return 0
        try:
            # A key of the sequence may be taken, if somebody has set it back.
            written = await retry_lost_races(self._session, partial(apply_steps, self._session, self._holder, writes))
        except (StatementRefused, StoreTooSlow, RecursionError, TypeError, ValueError) as error:
            if isinstance(error, StatementRefused) and not error.are_values_at_fault:
                raise StoreUnavailable(f"the server does not take what an engine writes: {error}") from error
            if len(keys) == 1:
                batch.failed.append((batch.advanced[keys[0]].signals or batch.read[keys[0]], error))
                return 0
            middle = len(keys) // 2
            return await self._write(batch, writes.of(keys[:middle])) + await self._write(
                batch, writes.of(keys[middle:])
            )
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

    async def _fail(self, signals: Signals, error: Exception) -> bool:
        """Put off a signal that can't be taken, and give it up after some tries; of many, first find which it is."""
        first = signals[0]
        if len(signals) > 1:
            self._one_by_one.add(first.instance_key)
            return True
        known = isinstance(error, ValueError | Gone | StatementRefused | StoreTooSlow)
        reason = str(error) if known else one_line(error)
        is_slow = isinstance(error, StoreTooSlow)
        outcome = await fail_signals(
            self._session,
            self._holder,
            [first.timer_key],
            reason=reason,
            delay_s=SLOW.pause_s(first.failed_attempts + 1) if is_slow else RETRY_S,
            tries_max=NEVER if is_slow else TRIES_MAX,
        )
        given_up = outcome.get(first.timer_key, False)
        self._stats.given_up += given_up
        self._log.error(
            "signal refused",
            signal=first.timer_key,
            instance=first.instance_key,
            given_up=given_up,
            error=reason,
        )
        return bool(outcome)

    async def _leave_to_newer(self, failed: Iterable[tuple[Signals, Exception]]) -> bool:
        """Put off what this release can't read, longer each time, so that a newer engine takes it.

        A model may have thousands of instances: signals with the same reason are put off by one statement.
        """
        done = False
        alike: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for (first, *others), error in failed:
            if others:
                self._one_by_one.add(first.instance_key)
                done = True
            else:
                alike[str(error), first.failed_attempts].append(first.timer_key)
        for (reason, attempts), timer_keys in alike.items():
            outcome = await fail_signals(
                self._session,
                self._holder,
                timer_keys,
                reason=reason,
                delay_s=SLOW.pause_s(attempts + 1),
                tries_max=TOO_NEW_TRIES_MAX,
            )
            given_up = sum(outcome.values())
            self._stats.given_up += given_up
            if given_up or reason not in self._told:
                self._log.error(
                    "signals left to a newer engine", signals=timer_keys[:10], given_up=given_up, error=reason
                )
                if len(self._told) >= TOLD_MAX:
                    self._told.clear()
                self._told.add(reason)
            done |= bool(outcome)
        return done
