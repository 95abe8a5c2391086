"""The response models of tenants."""

from dataclasses import asdict
from datetime import datetime
from typing import Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import RowAnswer
from shardclock_server.service.tenants import ShownTenant
from shardclock_server.sql.tenant_limits.tenant_limits import Limits, Tenant


class LimitsAnswer(RowAnswer):
    """A tenant's limits. Null means no limit; in the last five fields, null means the default limit."""

    timers_max: int | None = Field(examples=[100_000], description="pending timers")
    payload_bytes_max: int | None = Field(
        examples=[None], description="bytes of the payloads of pending timers, as JSON text"
    )
    waiters_max: int | None = Field(
        examples=[100], description="callers in a long poll or a stream of the log, at each gateway"
    )
    endpoints_max: int | None = Field(examples=[20])
    rate_per_s: float | None = Field(examples=[50], description="writes a second, at each gateway")
    instances_max: int | None = Field(examples=[5_000], description="unfinished instances of processes")
    tasks_max: int | None = Field(examples=[5_000], description="open tasks of people")
    messages_max: int | None = Field(examples=[1_000], description="messages that are stored for later tokens")
    definitions_max: int | None = Field(examples=[200], description="versions of processes, without deleted versions")
    schedules_max: int | None = Field(examples=[500], description="pending schedules")


class TenantAnswer(Answer):
    """A tenant with its own limits."""

    tenant_id: str = Field(examples=["acme"])
    limits: LimitsAnswer
    changed_at: datetime = Field(examples=["2027-01-31T08:00:00Z"])

    @classmethod
    def of(cls, tenant: Tenant) -> Self:
        """Create the response model from a stored tenant."""
        return cls(tenant_id=tenant.tenant_id, limits=LimitsAnswer.of(tenant.limits), changed_at=tenant.changed_at)


class TenantsAnswer(Answer):
    """A page of tenants, by name."""

    tenants: list[TenantAnswer]


class UsedAnswer(Answer):
    """A tenant's current usage of each limited resource."""

    timers: int = Field(examples=[812], description="pending and paused timers")
    payload_bytes: int = Field(examples=[40_600])
    estimated: bool = Field(
        examples=[False],
        description="whether `timers` and `payload_bytes` are estimates; true above 100,000 timers",
    )
    endpoints: int = Field(examples=[2])
    waiters: int = Field(examples=[0], description="waiting callers at the gateway that answers this request")
    instances: int = Field(examples=[12], description="unfinished instances, counted up to a million")
    tasks: int = Field(examples=[3])
    messages: int = Field(examples=[0])
    definitions: int = Field(examples=[2])
    schedules: int = Field(examples=[4], description="pending and paused schedules")


class ShownTenantAnswer(Answer):
    """A tenant's limits and usage."""

    tenant_id: str = Field(examples=["acme"])
    own: bool = Field(examples=[True], description="false: the tenant has the default limits of the gateway's settings")
    limits: LimitsAnswer
    used: UsedAnswer

    @classmethod
    def of(cls, shown: ShownTenant, *, usual: Limits, waiters: int) -> Self:
        """Combine the stored limits and usage; `usual` are the default limits of the gateway's settings."""
        counts = asdict(shown.pending) | dict(shown.counts)
        used = UsedAnswer(**counts, endpoints=shown.endpoints, waiters=waiters)
        own = shown.own
        limits = LimitsAnswer.of(usual if own is None else own.limits)
        return cls(tenant_id=shown.tenant_id, own=own is not None, limits=limits, used=used)
