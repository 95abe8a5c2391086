"""Send thrown signals to their subscriptions in batches, round robin over tenants."""

import time
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from shardclock_server.engine.batch import Signals, by_tenant
from shardclock_server.engine.tenant_scheduler import TenantScheduler
from shardclock_server.sql.claims.rows import retry_lost_races
from shardclock_server.sql.processes.signals import spread_signal
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable


class Broadcast(NamedTuple):
    """The number of receivers, and the reason for each signal that can't be sent."""

    sent: int
    failed: list[tuple[Signals, Exception]]


async def broadcast_all(
    session: Session, holder: int, thrown: Iterable[Signals], queue: TenantScheduler, *, until_s: float
) -> Broadcast:
    """Send thrown signals in batches, until the given moment.

    At least one batch is sent, even after that moment; later turns send the other batches.

    errors:  StoreUnavailable  the outcome is unknown: the next turn continues
    """
    sent = 0
    failed: list[tuple[Signals, Exception]] = []
    for signals in queue.in_turn(by_tenant(thrown)):
        began_s = time.monotonic()
        try:
            sent += await retry_lost_races(session, partial(spread_signal, session, holder, signals[0].timer_key))
        except StatementRefused as error:
            if not error.are_values_at_fault:
                raise StoreUnavailable(f"Postgres refuses an engine's statement: {error}") from error
            failed.append((signals, error))
        queue.charge(signals[0].tenant_id, time.monotonic() - began_s)
        if time.monotonic() >= until_s:
            break
    return Broadcast(sent, failed)
