"""Read the signals that are due, and put off those that can't be taken."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from shardclock_server.sql.session import Session
from shardclock_server.sql.statements import call_of, statement

START_LOCK_WAIT = "100ms"  # meanwhile the engine takes no other signals
RECEIVERS_MAX = 500  # of a thrown signal, that one statement sends it to
RECEIVERS_BYTES_MAX = 4 * 2**20  # of variables that it sends them together
TAKEN_BYTES_MAX = 32 * 2**20  # of signals and states that one statement reads, but for the last signal


class DueSignal(NamedTuple):
    """One signal that is due, and what is known of its instance.

    `signal` is JSON; None: a timer has fired. If `is_first`, its own key is that of an instance which is to begin. The
    cancellation of an instance that has not begun has the definition and the parent of the instance's start.

    shape:   `version` is None if there is no such instance; `state` comes with its first signal alone
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
    """A part of an engine's instances, whose signals are taken beside those of its other parts."""

    number: int = 0
    count: int = 1


WHOLE = Stripe()


class Place(NamedTuple):
    """How far a lane was read without result."""

    due_at: datetime
    timer_key: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """The order in which the lanes of tenants are read.

    shape:   `ahead_s` by tenant, of tenants that have used more than others; the search begins after `after_tenant`;
             the lanes in `behind` are read from there on
    units:   seconds of work
    """

    ahead_s: Mapping[str, float] = field(default_factory=dict)
    after_tenant: str = ""
    behind: Mapping[str, Place] = field(default_factory=dict)


ALL_LANES = Lanes()


class Poll(NamedTuple):
    """The signals that one statement found.

    shape:   tenants that are ahead come last; of one tenant cancellations come first, then the soonest;
             `next_tenant` is where the next search for lanes begins, "" at the beginning; `behind` tells by tenant
             how far a lane was read in which no signal can be taken yet
    """

    signals: list[DueSignal]
    next_tenant: str
    behind: Mapping[str, Place]


async def read_due_signals(
    session: Session,
    holder: int,
    *,
    batch: int,
    stripe: Stripe = WHOLE,
    without: Iterable[int] = (),
    lanes: Lanes = ALL_LANES,
) -> Poll:
    """Read the signals of the holder's instances that are due, a share of the batch for each tenant; claim nothing.

    `without` names instances; of their signals, only a cancellation is read.

    shape:   at most `batch`, and fewer if they are large, but always the first one
    errors:  StoreUnavailable  no answer in time: ask again
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
            behind[last["tenant_id"]] = Place(last["due_at"], last["instance_key"])
    seen: dict[int, DueSignal] = {}
    for row in rows:
        seen.setdefault(row["timer_key"], DueSignal._make(row[:-1]))
    return Poll(list(seen.values()), next_tenant, behind)


async def spread_signal(session: Session, holder: int, timer_key: int) -> int:
    """Send a thrown signal to the next part of its subscriptions; return their number.

    shape:   0: all have it, or another session has locked it
    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the signal can't be read
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


async def put_off_signals(
    session: Session,
    holder: int,
    timer_keys: Sequence[int],
    *,
    reason: str,
    delay_s: float,
    tries_max: int,
    is_told: bool = False,
) -> dict[int, bool]:
    """Put off signals that could not be taken; say of each whether it is given up now, after so many tries.

    With `is_told`, their instances have an incident until the signals are taken.

    shape:   by the signal's key; one that is missing was locked by somebody, or is gone

    errors:  StoreUnavailable  the outcome is unknown: they are due soon in any case
    source:  sql/processes/put_off_signals.sql
    """
    rows = await session.rows(
        "put_off_signals",
        holder=holder,
        timer_keys=timer_keys,
        reason=reason,
        delay=timedelta(seconds=delay_s),
        tries_max=tries_max,
        is_told=is_told,
    )
    return {row["timer_key"]: row["given_up"] for row in rows}


async def cancel_start(session: Session, instance_key: int, *, signal_key: int) -> bool:
    """Cancel an instance whose start was given up, for whoever sent the signal; say whether it was.

    errors:  StoreLocked       somebody's transaction is about that start: call again later
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/processes/cancel_start.sql
    """
    async with session.transaction() as connection:
        await connection.execute(*statement("limit_lock_wait").with_values({"wait": START_LOCK_WAIT}))
        given = {"instance_key": instance_key, "signal_key": signal_key}
        return bool(await connection.fetchval(*call_of("cancel_start", given)))


async def correlate_waiting(session: Session, instance_keys: Sequence[int]) -> int:
    """Give tokens that have come to wait the messages that were published before; return how many.

    shape:   a thousand in a transaction, until there are no more
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/processes/correlate_waiting.sql
    """
    given = 0
    while more := await session.call_one("correlate_waiting", instance_keys=instance_keys):
        given += more
    return given


class KeptCursor(NamedTuple):
    """How far kept messages have been looked through."""

    expires_at: datetime
    message_key: int


KEPT_BEGIN = KeptCursor(datetime.min.replace(tzinfo=UTC), 0)


async def correlate_kept(session: Session, after: KeptCursor, *, batch: int) -> KeptCursor:
    """Give kept messages of one page to tokens that wait for them; return where the next page begins.

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
    """Forget messages whose time to live has passed; return how many.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/forget_messages.sql
    """
    return len(await session.rows("forget_messages", batch=batch))


async def forget_starts(session: Session, *, batch: int) -> int:
    """Forget the idempotency keys of starts that are older than a day; return how many.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/forget_starts.sql
    """
    return len(await session.rows("forget_starts", batch=batch))


async def forget_instances(session: Session, *, kept_s: float, batch: int, parts: int) -> bool:
    """Forget instances that ended long ago, with their history; say whether there may be more to forget.

    Of a long history it forgets a part, of at most so many steps and acts.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/forget_instances.sql
    """
    row = await session.row("forget_instances", kept=timedelta(seconds=kept_s), batch=batch, parts=parts)
    assert row is not None, "it counts"
    return bool(row["has_more"])
