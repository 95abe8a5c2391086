"""Read due signals, and defer signals that can't be processed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from shardclock_server.sql.session import Session
from shardclock_server.sql.statements import call_of, statement

START_LOCK_WAIT = "100ms"  # The limit is short, because the engine does nothing else during the wait.
RECEIVERS_MAX = 500  # One statement sends a thrown signal to at most this many receivers.
RECEIVERS_BYTES_MAX = 4 * 2**20  # The limit of variables' bytes, for all receivers of one statement together.
# The limit of bytes of signals and states that one statement reads; the last row may exceed it.
TAKEN_BYTES_MAX = 32 * 2**20


class DueSignal(NamedTuple):
    """One due signal, with the state of its instance.

    `signal` is JSON, or None if a timer has fired. If `is_first`, the signal's key is also the key of the new instance.
    If an instance is cancelled before it has begun, its start supplies the definition and the parent.

    shape:   `version` is None if the instance is unknown; only an instance's first signal has `state`
    """

    timer_key: int
    instance_key: int
    is_first: bool
    token: int | None
    node_id: str | None
    tenant_id: str
    signal: str | None
    failed_attempts: int
    due_at: datetime
    version: int | None
    definition_key: int | None
    process_id: str | None
    parent_key: int | None
    parent_token: int | None
    root_key: int | None
    state: str | None
    has_ended: bool
    server_time: datetime


@dataclass(frozen=True, slots=True)
class Stripe:
    """A part of an engine's instances; an engine processes the signals of several stripes concurrently."""

    number: int = 0
    count: int = 1


WHOLE = Stripe()


class LaneCursor(NamedTuple):
    """A position among one tenant's due signals; the next read of these signals begins after the position.

    The signals up to the position wait for other signals, or their instances are left out.
    """

    due_at: datetime
    timer_key: int


@dataclass(frozen=True, slots=True)
class LaneOrder:
    """The order in which an engine reads the tenants' lanes.

    shape:   ahead_s       for each tenant, the time by which it has used more than other tenants
             after_tenant  the search for lanes begins after this tenant
             behind        the cursors of lanes; a lane with a cursor is read after its cursor
    units:   `ahead_s` in seconds of engine time
    """

    ahead_s: Mapping[str, float] = field(default_factory=dict)
    after_tenant: str = ""
    behind: Mapping[str, LaneCursor] = field(default_factory=dict)


ALL_LANES = LaneOrder()


class Poll(NamedTuple):
    """The signals that one statement found.

    shape:   signals      the tenants in `ahead_s` come last; for each tenant cancellations come first, then the soonest
                          signals
             next_tenant  the `after_tenant` of the next search
             behind       the cursors of lanes, by tenant
    """

    signals: list[DueSignal]
    next_tenant: str
    behind: Mapping[str, LaneCursor]


async def read_due_signals(
    session: Session,
    holder: int,
    *,
    batch: int,
    stripe: Stripe = WHOLE,
    without: Iterable[int] = (),
    lanes: LaneOrder = ALL_LANES,
) -> Poll:
    """Read the due signals of the holder's instances; each tenant has a share of the batch. The call claims no rows.

    For the instances in `without`, only cancellations are read.

    shape:   at most `batch`; fewer if the signals are large, at least one
    errors:  StoreUnavailable  no answer before the timeout: ask again
    source:  sql/processes/read_due_signals.sql
    """
    rows = await session.rows(
        "read_due_signals",
        holder=holder,
        batch=batch,
        bytes=TAKEN_BYTES_MAX,
        stripe=stripe.number,
        stripes=stripe.count,
        without=list(without),
        tenants=list(lanes.ahead_s),
        ahead_s=list(lanes.ahead_s.values()),
        after_tenant=lanes.after_tenant,
        behind_tenants=list(lanes.behind),
        behind_at=[place.due_at for place in lanes.behind.values()],
        behind_key=[place.timer_key for place in lanes.behind.values()],
    )
    next_tenant, behind = "", {}
    while rows and rows[-1]["timer_key"] is None:
        last = rows.pop()
        if last["next_tenant"] is not None:
            next_tenant = last["next_tenant"]
        else:
            behind[last["tenant_id"]] = LaneCursor(last["due_at"], last["instance_key"])
    seen: dict[int, DueSignal] = {}
    for row in rows:
        seen.setdefault(row["timer_key"], DueSignal._make(row[:-1]))
    return Poll(list(seen.values()), next_tenant, behind)


async def spread_signal(session: Session, holder: int, timer_key: int) -> int:
    """Send a thrown signal to the next batch of its subscriptions; return the number of these subscriptions.

    shape:   0 if all subscriptions have the signal, or if another session has locked the signal
    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the stored signal is malformed
    source:  sql/processes/spread_signal.sql
    """
    rows = await session.rows(
        "spread_signal",
        holder=holder,
        timer_key=timer_key,
        receivers_max=RECEIVERS_MAX,
        bytes_max=RECEIVERS_BYTES_MAX,
    )
    return int(rows[0]["sent"])


async def defer_signals(
    session: Session,
    holder: int,
    timer_keys: Sequence[int],
    *,
    reason: str,
    delay_s: float,
    tries_max: int,
    raises_incident: bool = False,
) -> dict[int, bool]:
    """Defer signals that could not be processed; return whether each signal was given up after its last attempt.

    With `raises_incident`, each signal's instance has an incident until the signal is processed.

    shape:   by the signal's key; without signals that are locked or deleted

    errors:  StoreUnavailable  the outcome is unknown; the signals are due again soon, deferred or not
    source:  sql/processes/defer_signals.sql
    """
    rows = await session.rows(
        "defer_signals",
        holder=holder,
        timer_keys=timer_keys,
        reason=reason,
        delay=timedelta(seconds=delay_s),
        tries_max=tries_max,
        raises_incident=raises_incident,
    )
    return {row["timer_key"]: row["given_up"] for row in rows}


async def cancel_start(session: Session, instance_key: int, *, signal_key: int) -> bool:
    """Cancel an instance, for the sender of the signal, if its start was given up; return whether it was cancelled.

    errors:  StoreLocked       another transaction has locked that start: call again later
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/processes/cancel_start.sql
    """
    async with session.transaction() as connection:
        await connection.execute(*statement("limit_lock_wait").with_values({"wait": START_LOCK_WAIT}))
        given = {"instance_key": instance_key, "signal_key": signal_key}
        return bool(await connection.fetchval(*call_of("cancel_start", given)))


async def correlate_waiting(session: Session, instance_keys: Sequence[int]) -> int:
    """Correlate waiting tokens with stored messages; return the number of correlated messages.

    shape:   the call may use several transactions, each for at most a thousand messages
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/processes/correlate_waiting.sql
    """
    given = 0
    while more := await session.call_one("correlate_waiting", instance_keys=instance_keys):
        given += more
    return given


class KeptCursor(NamedTuple):
    """The cursor of a page in the list of stored messages."""

    expires_at: datetime
    message_key: int


KEPT_BEGIN = KeptCursor(datetime.min.replace(tzinfo=UTC), 0)


async def correlate_kept(session: Session, after: KeptCursor, *, batch: int) -> KeptCursor:
    """Correlate the stored messages of one page with waiting tokens; return the cursor of the next page.

    shape:   KEPT_BEGIN after the last page
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/find_kept_for.sql
    """
    rows = await session.rows(
        "find_kept_for", after_expires_at=after.expires_at, after_key=after.message_key, batch=batch
    )
    if not rows:
        return KEPT_BEGIN
    if waiting := [row["instance_key"] for row in rows if row["instance_key"] is not None]:
        await correlate_waiting(session, waiting)
    return KeptCursor(rows[0]["expires_at"], rows[0]["message_key"])


async def forget_messages(session: Session, *, batch: int) -> int:
    """Delete messages after the end of their time to live; return their number.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/forget_messages.sql
    """
    return len(await session.rows("forget_messages", batch=batch))


async def forget_starts(session: Session, *, batch: int) -> int:
    """Delete the idempotency keys of starts that are older than a day; return their number.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/forget_starts.sql
    """
    return len(await session.rows("forget_starts", batch=batch))


async def forget_instances(session: Session, *, kept_s: float, batch: int, parts: int) -> bool:
    """Delete instances that ended long ago, with their history; return whether another call may delete more.

    One call deletes at most `parts` steps and `parts` acts of a long history.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/forget_instances.sql
    """
    row = await session.row("forget_instances", kept=timedelta(seconds=kept_s), batch=batch, parts=parts)
    assert row is not None, "it counts"
    return bool(row["has_more"])
