"""The limits and the usage of tenants of the HTTP API: show limits and usage, set limits, remove limits.

The gateways enforce the limits: docs/decisions/0046-quotas.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from shardclock.api.refusals.tenants import NO_OWN_LIMITS, UNKNOWN_TENANT
from shardclock_server.sql.endpoints.endpoints import count_endpoints
from shardclock_server.sql.keys.keys import has_key
from shardclock_server.sql.session import Session
from shardclock_server.sql.tenant_limits.tenant_limits import (
    DEFAULTS,
    LIMITS,
    NO_LIMIT,
    UNINDEXED,
    Limits,
    Pending,
    Tenant,
    count_used,
    find_limits,
    list_tenants,
    lock_limits,
    measure_pending,
    remove_limits,
    set_limits,
)
from shardclock_server.timers.model import BIGINT_MAX, NAME_CHARS_MAX, NAME_RULE
from shardclock_server.timers.refusal import Refusal, shortened

RATE_LEAST, RATE_MOST = 0.001, 1_000_000
LISTED_MAX = 10_000


class InvalidLimit(Refusal):
    """A limit is out of range, or the name can't be a tenant's."""


@dataclass(frozen=True, slots=True)
class ShownTenant:
    """A tenant's limits and usage. Without `own`, the default limits of the gateways' settings apply.

    A tenant exists if it has limits of its own, rows that count as usage, or an API key. The tenant `default` always
    exists.
    """

    tenant_id: str
    own: Tenant | None
    pending: Pending
    endpoints: int
    counts: Mapping[str, int]  # the usage of each resource in `COUNTED`, counted up to a million
    exists: bool


class ChangedLimits(NamedTuple):
    """A tenant's limits after a change, and the list of the changes for the audit."""

    tenant: Tenant
    changes: list[str]


class RemovedLimits(NamedTuple):
    """A sentence about a removal, and the list of the removed limits for the audit."""

    sentence: str
    changes: list[str]


async def show(session: Session, tenant_id: str) -> ShownTenant:
    """Read the limits and the usage of a tenant that exists.

    errors:  Refusal           unknown_tenant
             as `measure`
    """
    found = await measure(session, tenant_id)
    if not found.exists:
        raise Refusal.of(UNKNOWN_TENANT, tenant_id=tenant_id)
    return found


async def measure(session: Session, tenant_id: str) -> ShownTenant:
    """Read a tenant's limits and its usage; a tenant that does not exist has no usage.

    errors:  InvalidLimit      the text can't be the name of a tenant
             StoreUnavailable  Postgres did not answer within the timeout
    """
    _check_name(tenant_id)
    own = await list_tenants(session, tenant_id=tenant_id, limit=1)
    pending = await measure_pending(session, tenant_id)
    endpoints, counts = await count_endpoints(session, tenant_id), await count_used(session, tenant_id)
    is_used = bool(own or pending.timers or endpoints or any(counts.values()))
    exists = tenant_id == UNINDEXED or is_used or await has_key(session, tenant_id)
    return ShownTenant(tenant_id, own[0] if own else None, pending, endpoints, counts, exists)


async def set_own(session: Session, tenant_id: str, given: Mapping[str, float | None]) -> ChangedLimits:
    """Set some of a tenant's own limits, by name; None means no limit. Limits that are not given stay unchanged.

    A concurrent change of the same tenant's limits waits until this call has ended. The old values in the audit are
    therefore the values that this call has replaced.

    errors:  InvalidLimit      a limit or the tenant's name is refused, or no limit is given
             StoreUnavailable  the outcome is unknown: call again
    """
    _check_name(tenant_id)
    if not given:
        raise InvalidLimit(f"tenant {shortened(tenant_id)} is unchanged: give a limit")
    checked = {name: checked_limit(name, limit) for name, limit in given.items()}
    async with session.transaction():
        await lock_limits(session, tenant_id)
        before = await find_limits(session, tenant_id)
        now = await set_limits(session, tenant_id, checked)
    return ChangedLimits(now, describe_changes(before, now.limits))


def describe_changes(before: Limits | None, now: Limits | None) -> list[str]:
    """List each changed limit with its old and its new value, such as `timers_max 5,000 → 800`, or `no change`.

    `before` or `now` is None if the tenant has no own limits.
    """
    pairs = [(name, _word_of(before, name), _word_of(now, name)) for name in LIMITS]
    return [f"{name} {old} → {new}" for name, old, new in pairs if old != new] or ["no change"]


def _word_of(limits: Limits | None, name: str) -> str:
    limit = None if limits is None else getattr(limits, name)
    if limit is None and name in DEFAULTS:
        return "default"
    if limits is None:
        return "the gateways' setting"
    return "no limit" if limit in (None, NO_LIMIT) else f"{limit:,}"


async def remove_own(session: Session, tenant_id: str) -> RemovedLimits:
    """Remove a tenant's own limits, so that the limits of the gateways' settings apply.

    errors:  Refusal           no_own_limits
             StoreUnavailable  the outcome is unknown: call again
    """
    async with session.transaction():
        await lock_limits(session, tenant_id)
        before = await remove_limits(session, tenant_id)
    if before is None:
        raise Refusal.of(NO_OWN_LIMITS, tenant_id=tenant_id)
    sentence = f"tenant {shortened(tenant_id)} has the limits of the gateways' settings"
    return RemovedLimits(sentence, describe_changes(before, None))


def _check_name(tenant_id: str) -> None:
    if not (1 <= len(tenant_id) <= NAME_CHARS_MAX and tenant_id.isprintable()):
        raise InvalidLimit(f"tenant {shortened(tenant_id)} is refused: it must be {NAME_RULE}")


def checked_limit(name: str, limit: float | None, *, label: str | None = None, none: str = "nothing") -> float | None:
    """Convert a limit to its stored form.

    A refusal calls the limit `label` (default: `name`), and uses the word `none` for "no limit".

    errors:  InvalidLimit  the limit is out of range
    """
    assert name in LIMITS, name
    if limit is None:
        return None
    if name == "rate_per_s":
        if RATE_LEAST <= limit <= RATE_MOST:
            return float(limit)
        rule = f"a number from {RATE_LEAST:g} to {RATE_MOST:,}"
    else:
        if isinstance(limit, int) and 0 <= limit <= BIGINT_MAX:
            return limit
        rule = f"a whole number from 0 to {BIGINT_MAX}"
    raise InvalidLimit(f"{label or name} {shortened(limit)} is refused: it must be {rule}, or {none} for no limit")
