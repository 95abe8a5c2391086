"""A gateway's settings, each number with its unit and its reason."""

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from shardclock_server.sql.tenants.tenants import Limits
from shardclock_server.webhooks.addresses import listed, networks_of
from shardclock_server.webhooks.endpoint import EndpointRules


class CannotServe(Exception):
    """The gateway can't listen, or must not listen; the message has the reason and the way out."""


class UnfitSchema(CannotServe):
    """The database has another version of the schema; the message names the command that repairs it."""


class GatewaySettings(BaseModel):
    """All settings of one gateway."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    identity: str = ""
    silent_s: float = 5.0
    metrics_socket: str | None = None
    webhook_http: bool = False
    webhook_allow: str = ""
    webhook_deny: str = ""

    gateway_host: str = Field(
        "127.0.0.1", min_length=1, description="the address on which the HTTP API listens; 0.0.0.0: all addresses"
    )
    gateway_port: int = Field(
        9841, ge=0, le=65_535, description="the port on which the HTTP API listens; 0: any free port"
    )
    gateway_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#\s]+(/[^?#\s]*)?$",
        description="the address for browsers, behind a proxy: https://example.com/timers; none: the gateway's own",
    )
    gateway_keys: bool | None = Field(
        None, description="whether each request needs an API key; none: yes, except on a loopback address"
    )
    gateway_tls_cert: Path | None = Field(None, description="the file with the TLS certificate; none: plain HTTP")
    gateway_tls_key: Path | None = Field(None, description="the file with the TLS private key")
    gateway_rate_per_s: float | None = Field(
        None,
        gt=0,
        description="writes a second of a tenant without limits of its own; each line of a bulk request counts; none:"
        " no limit",
    )
    gateway_audited_per_hour: int = Field(
        360,
        ge=1,
        le=1_000_000,
        description="requests an hour with a tenant's key that leave an audit record, at one gateway, with a burst of"
        " 2,000",
    )
    gateway_timers_max: int | None = Field(
        None, ge=0, description="pending timers of a tenant without limits of its own; none: no limit"
    )
    gateway_payload_bytes_max: int | None = Field(
        None,
        ge=0,
        description="bytes of the payloads of pending timers, of a tenant without limits of its own; none: no limit",
    )
    gateway_waiters_max: int | None = Field(
        None,
        ge=0,
        description="callers of a tenant without limits of its own that wait or follow the log, at one gateway; none:"
        " no limit",
    )
    gateway_endpoints_max: int = Field(
        10_000,
        ge=0,
        description="endpoints of a tenant without limits of its own: each one with a delivery costs each worker's"
        " search a probe",
    )
    gateway_schedules_max: int = Field(
        20_000,
        ge=0,
        description="pending schedules of a tenant without limits of its own: each schedule costs shards repeated"
        " firings",
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
        description="callers that wait for the end of a timer or an instance, at one gateway: each costs a connection",
    )
    gateway_task_waits_max: int = Field(
        500,
        ge=0,
        description="programs that wait for a service task, at one gateway",
    )
    gateway_connections_max: int | None = Field(
        None, ge=16, description="open connections of clients; none: the process's limit of files, less about 100"
    )
    gateway_sessions: int = Field(16, ge=2, le=200, description="connections of one gateway to Postgres")
    gateway_wait_s: float = Field(
        0.8, gt=0, le=60, description="the wait for a free connection to Postgres, before the gateway answers 503"
    )
    gateway_timeout_s: float = Field(
        5.0, gt=0, le=60, description="the wait for an answer of Postgres, before the gateway answers 503"
    )
    gateway_body_s: float = Field(10.0, gt=0, description="the time in which a request's body must arrive")

    @property
    def root_path(self) -> str:
        """The path under which a proxy serves the gateway; the proxy removes it from the requests."""
        return urlsplit(self.gateway_url or "").path.rstrip("/")

    @property
    def usual_limits(self) -> Limits:
        """The limits of a tenant without limits of its own."""
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
        """The addresses to which webhooks may be sent."""
        return EndpointRules(self.webhook_http, networks_of(listed(self.webhook_allow), listed(self.webhook_deny)))
