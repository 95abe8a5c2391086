"""Defer or give up signals that can't be processed."""

import time
from collections import defaultdict
from collections.abc import Iterable

from structlog.typing import FilteringBoundLogger

from shardclock_server.engine.advance import begun_with_incident, definition_of
from shardclock_server.engine.batch import BATCH_S, CanceledBeforeStart
from shardclock_server.engine.deferral_log import DeferralLog
from shardclock_server.engine.definitions import Definitions, Missing
from shardclock_server.engine.inbox import content_of
from shardclock_server.engine.retry_policy import Deferral, deferral_after
from shardclock_server.engine.stats import EngineStats
from shardclock_server.sql.processes.apply import apply_steps
from shardclock_server.sql.processes.signals import DueSignal, cancel_start, defer_signals
from shardclock_server.sql.session import Session, StatementRefused, StoreLocked, StoreTooSlow


class FailedSignals:
    """Defer each signal that caused an error, or give it up."""

    def __init__(
        self,
        session: Session,
        holder: int,
        *,
        definitions: Definitions,
        stats: EngineStats,
        log: FilteringBoundLogger,
    ) -> None:
        self._session = session
        self._holder = holder
        self._definitions = definitions
        self._stats = stats
        self._log = DeferralLog(log)

    async def defer(self, failed: Iterable[tuple[DueSignal, Exception]]) -> bool:
        """Defer signals, or give them up; return whether a signal was deferred or given up.

        One statement defers all signals with the same delay, because a faulty model may have thousands of instances.
        """
        done, is_locked, until_s = False, False, time.monotonic() + BATCH_S
        alike: defaultdict[Deferral, list[DueSignal]] = defaultdict(list)
        for first, error in failed:
            is_unbegun = isinstance(error, CanceledBeforeStart)
            # The next turn processes the other signals.
            if (is_unbegun and is_locked) or time.monotonic() > until_s:
                continue
            try:
                if is_unbegun and await cancel_start(self._session, first.instance_key, signal_key=first.timer_key):
                    done = True  # the instance has ended, so the next turn deletes the signal
                    continue
            except (StoreLocked, StoreTooSlow):
                is_locked = True  # a client's transaction has locked the rows of starts; the next turn tries again
                continue
            except StatementRefused as refusal:
                error = refusal  # noqa: PLW2901 - the refusal decides the delay
            deferral = deferral_after(error, first.failed_attempts)
            if deferral.is_last_try and first.is_first and await self._begin_stopped(first, deferral.reason):
                done = True
                continue
            alike[deferral].append(first)
        for deferral, signals in alike.items():
            done |= await self._write(deferral, signals)
        return done

    async def _write(self, deferral: Deferral, signals: list[DueSignal]) -> bool:
        outcome = await defer_signals(
            self._session,
            self._holder,
            [signal.timer_key for signal in signals],
            reason=deferral.reason,
            delay_s=deferral.delay_s,
            tries_max=deferral.tries_max,
            raises_incident=deferral.raises_incident,
        )
        self._stats.given_up += sum(outcome.values())
        self._log.record(deferral, signals, outcome)
        return bool(outcome)

    async def _begin_stopped(self, first: DueSignal, reason: str) -> bool:
        """Start an instance with an incident, because its regular start can't be written.

        The result is False if the incident can't be written either. A called process gets no incident; its caller gets
        the error.
        """
        try:
            if content_of(first).get("parent") is not None:
                return False
            key = definition_of(first)
            sentence = f"can't write the start: {reason}; correct the variables or the model, and resolve the incident"
            stopped = begun_with_incident(first, self._definitions.get(key, first.tenant_id), key, sentence)
            written, _ = await apply_steps(self._session, self._holder, stopped.writes())
        except (Missing, ValueError, TypeError, RecursionError, StatementRefused):
            return False
        if written:
            self._stats.count([stopped])
        return bool(written)
