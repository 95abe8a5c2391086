"""A gateway's settings, each number with its unit and its reason."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from shardclock_server.sql.tenants.tenants import Limits
from shardclock_server.webhooks.addresses import listed, networks_of
from shardclock_server.webhooks.endpoint import EndpointRules


class CannotServe(Exception):
    """The gateway can't listen, or must not; the message says why, and the way out."""


class UnfitSchema(CannotServe):
    """The database has another schema than the gateway needs; the message names the command that repairs it."""


class GatewaySettings(BaseModel):
    """Hold all settings of one gateway."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    identity: str = ""
    silent_s: float = 5.0
    metrics_socket: str | None = None
    webhook_http: bool = False
    webhook_allow: str = ""
    webhook_deny: str = ""

    gateway_host: str = Field(
        "127.0.0.1", min_length=1, description="where the HTTP API listens: 0.0.0.0 is everywhere"
    )
    gateway_port: int = Field(9841, ge=0, le=65_535, description="and on which port: 0 is any free one")
    gateway_keys: bool | None = Field(
        None, description="whether each request needs an API key; none: it does, unless only this machine is served"
    )
    gateway_tls_cert: Path | None = Field(None, description="a file with its certificate; none: it speaks plain HTTP")
    gateway_tls_key: Path | None = Field(None, description="and the file with its private key")
    gateway_rate_per_s: float | None = Field(
        None,
        gt=0,
        description="writes a second of a tenant without limits of its own, lines of many counted each; none: no limit",
    )
    gateway_acts_per_hour: int = Field(
        360,
        ge=1,
        le=1_000_000,
        description="requests of a tenant's key that leave a record in the audit, 2,000 at once, at one gateway",
    )
    gateway_timers_max: int | None = Field(
        None, ge=0, description="pending timers of such a tenant; none: without a limit"
    )
    gateway_payload_bytes_max: int | None = Field(
        None, ge=0, description="bytes of their payloads, of such a tenant; none: without a limit"
    )
    gateway_waiters_max: int | None = Field(
        None, ge=0, description="callers of such a tenant that wait or follow the log at one gateway; none: no limit"
    )
    gateway_endpoints_max: int = Field(
        10_000, ge=0, description="endpoints of such a tenant: each with a delivery is a probe of every worker's search"
    )
    gateway_schedules_max: int = Field(
        20_000, ge=0, description="pending schedules of such a tenant: each costs shards a firing again and again"
    )
    gateway_streams_max: int = Field(
        200,
        ge=0,
        description="callers that follow the log, wait for its records or lease them, or wait for a run, at one"
        " gateway: each reads ten times a second",
    )
    gateway_waits_max: int = Field(
        20_000,
        ge=0,
        description="callers that wait for an end, of a timer or an instance, at one gateway: each costs a connection",
    )
    gateway_task_waits_max: int = Field(
        500,
        ge=0,
        description="programs that wait at one gateway for a service task",
    )
    gateway_connections_max: int | None = Field(
        None, ge=16, description="open connections of clients; none: what the process's files leave, but about 100"
    )
    gateway_sessions: int = Field(16, ge=2, le=200, description="connections to Postgres at most, of one gateway")
    gateway_wait_s: float = Field(0.8, gt=0, le=60, description="for a free connection, before it answers 503")
    gateway_timeout_s: float = Field(5.0, gt=0, le=60, description="for an answer of Postgres, before it answers 503")
    gateway_body_s: float = Field(10.0, gt=0, description="for a request's body to arrive whole")

    @property
    def usual_limits(self) -> Limits:
        """Return what a tenant may have that has no limits of its own."""
        return Limits(
            self.gateway_timers_max,
            self.gateway_payload_bytes_max,
            self.gateway_waiters_max,
            self.gateway_endpoints_max,
            self.gateway_rate_per_s,
            schedules_max=self.gateway_schedules_max,
        )

    @property
    def endpoint_rules(self) -> EndpointRules:
        """Return where webhooks may be sent."""
        return EndpointRules(self.webhook_http, networks_of(listed(self.webhook_allow), listed(self.webhook_deny)))
