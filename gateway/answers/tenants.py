"""What is answered about tenants."""

from dataclasses import asdict
from datetime import datetime
from typing import Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.service.tenants import ShownTenant
from shardclock_server.sql.tenants.tenants import Limits, Tenant


class LimitsAnswer(Answer):
    """A tenant's limits; null is no limit, and for the last five the default."""

    timers_max: int | None = Field(examples=[100_000], description="pending timers")
    payload_bytes_max: int | None = Field(examples=[None], description="bytes of their payloads, as JSON text")
    waiters_max: int | None = Field(examples=[100], description="callers who wait or follow the log, at each gateway")
    endpoints_max: int | None = Field(examples=[20])
    rate_per_s: float | None = Field(examples=[50], description="writes a second, at each gateway")
    instances_max: int | None = Field(examples=[5_000], description="instances of processes that have not ended")
    tasks_max: int | None = Field(examples=[5_000], description="open tasks of persons")
    messages_max: int | None = Field(examples=[1_000], description="kept messages")
    definitions_max: int | None = Field(examples=[200], description="versions of processes that are not deleted")
    schedules_max: int | None = Field(examples=[500], description="pending schedules")

    @classmethod
    def of(cls, limits: Limits) -> Self:
        """Make it of what was found."""
        return cls(**asdict(limits))


class TenantAnswer(Answer):
    """A tenant that has limits of its own."""

    tenant_id: str = Field(examples=["acme"])
    limits: LimitsAnswer
    changed_at: datetime = Field(examples=["2027-01-31T08:00:00Z"])

    @classmethod
    def of(cls, tenant: Tenant) -> Self:
        """Make it of what was found."""
        return cls(tenant_id=tenant.tenant_id, limits=LimitsAnswer.of(tenant.limits), changed_at=tenant.changed_at)


class TenantsAnswer(Answer):
    """Some tenants, by name."""

    tenants: list[TenantAnswer]


class UsedAnswer(Answer):
    """What a tenant has of what is limited."""

    timers: int = Field(examples=[812], description="pending timers, paused ones counted")
    payload_bytes: int = Field(examples=[40_600])
    estimated: bool = Field(
        examples=[False], description="whether these two are estimates, of more than 100,000 timers"
    )
    endpoints: int = Field(examples=[2])
    waiters: int = Field(examples=[0], description="at the gateway that answers")
    instances: int = Field(examples=[12], description="that have not ended; a million are counted at most")
    tasks: int = Field(examples=[3])
    messages: int = Field(examples=[0])
    definitions: int = Field(examples=[2])
    schedules: int = Field(examples=[4], description="pending ones, paused ones counted")


class ShownTenantAnswer(Answer):
    """What a tenant may have, and what it has."""

    tenant_id: str = Field(examples=["acme"])
    own: bool = Field(examples=[True], description="false: the limits are those of the gateway's settings")
    limits: LimitsAnswer
    used: UsedAnswer

    @classmethod
    def of(cls, shown: ShownTenant, *, usual: Limits, waiters: int) -> Self:
        """Make it of what was found."""
        counts = asdict(shown.pending) | dict(shown.counts)
        used = UsedAnswer(**counts, endpoints=shown.endpoints, waiters=waiters)
        own = shown.own
        limits = LimitsAnswer.of(usual if own is None else own.limits)
        return cls(tenant_id=shown.tenant_id, own=own is not None, limits=limits, used=used)
