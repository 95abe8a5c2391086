"""A gateway's settings, each number with its unit and its reason."""

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from shardclock_server.gateway.oidc.grants import GroupGrants, read_grants
from shardclock_server.gateway.oidc.registration import ClientRegistration, is_safe_url
from shardclock_server.sql.tenant_limits.tenant_limits import Limits
from shardclock_server.webhooks.addresses import listed, networks_of
from shardclock_server.webhooks.endpoint import EndpointRules


class CannotServe(Exception):
    """The gateway can't listen, or must not listen; the message has the reason and the correction."""


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
        "127.0.0.1", min_length=1, description="the address on which the HTTP API listens; 0.0.0.0 means all addresses"
    )
    gateway_port: int = Field(
        9841, ge=0, le=65_535, description="the port on which the HTTP API listens; 0 means any free port"
    )
    gateway_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#\s]+(/[^?#\s]*)?$",
        description="the URL that browsers use behind a proxy, such as https://example.com/timers; by default the"
        " gateway's own URL",
    )
    gateway_keys: bool | None = Field(
        None, description="whether each request needs an API key; by default yes, except on a loopback address"
    )
    gateway_oidc_issuer: str | None = Field(
        None,
        max_length=255,
        description="the identity provider at which people sign in to the console; without it, people use keys",
    )
    gateway_oidc_client_id: str | None = Field(
        None, min_length=1, max_length=255, description="the client id of the gateways at the identity provider"
    )
    gateway_oidc_secret: SecretStr | None = Field(
        None,
        min_length=1,
        description="the client secret of the gateways at the identity provider; a public client has no secret",
    )
    gateway_oidc_secret_file: Path | None = Field(
        None, description="the file with the client secret, which is read for each sign-in"
    )
    gateway_oidc_groups: str = Field(
        "", description="the scopes and tenants that groups get, such as ops=operate@*; shop=read,write@shop"
    )
    gateway_oidc_groups_claim: str = Field(
        "groups", min_length=1, max_length=255, description="the claim of the ID token that has a person's groups"
    )
    gateway_oidc_scopes: str = Field(
        "openid profile email",
        pattern=r"^openid( [\x21-\x7e]+)*$",
        description="the scopes that the gateway requests; some providers return the groups only with a special scope",
    )
    gateway_tls_cert: Path | None = Field(None, description="the file with the TLS certificate; by default plain HTTP")
    gateway_tls_key: Path | None = Field(None, description="the file with the TLS private key")
    gateway_rate_per_s: float | None = Field(
        None,
        gt=0,
        description="the limit of writes a second for a tenant without its own limits; each line of a bulk request is a"
        " write; none: no limit",
    )
    gateway_audited_per_hour: int = Field(
        360,
        ge=1,
        le=1_000_000,
        description="the limit of audited requests an hour that a tenant's keys may make at one gateway, with a burst"
        " of 2,000",
    )
    gateway_timers_max: int | None = Field(
        None, ge=0, description="the limit of pending timers for a tenant without its own limits; none: no limit"
    )
    gateway_payload_bytes_max: int | None = Field(
        None,
        ge=0,
        description="the limit of payload bytes in pending timers for a tenant without its own limits; none: no limit",
    )
    gateway_waiters_max: int | None = Field(
        None,
        ge=0,
        description="the limit of callers that wait or follow the log at one gateway, for a tenant without its own"
        " limits; none: no limit",
    )
    gateway_endpoints_max: int = Field(
        10_000,
        ge=0,
        description="the limit of endpoints for a tenant without its own limits, because each endpoint with a delivery"
        " slows down the search of each worker",
    )
    gateway_schedules_max: int = Field(
        20_000,
        ge=0,
        description="the limit of pending schedules for a tenant without its own limits, because each schedule fires"
        " repeatedly",
    )
    gateway_streams_max: int = Field(
        200,
        ge=0,
        description="the limit of callers that follow the log, wait for its records, lease them or wait for a run at"
        " one gateway; each caller reads ten times a second",
    )
    gateway_waits_max: int = Field(
        20_000,
        ge=0,
        description="the limit of callers that wait at one gateway for the end of a timer or an instance",
    )
    gateway_task_waits_max: int = Field(
        500,
        ge=0,
        description="the limit of programs that wait for a service task at one gateway",
    )
    gateway_connections_max: int | None = Field(
        None,
        ge=16,
        description="the limit of client connections; by default the process's limit of files, less about 100",
    )
    gateway_sessions: int = Field(16, ge=2, le=200, description="how many connections to Postgres one gateway opens")
    gateway_wait_s: float = Field(
        0.8, gt=0, le=60, description="how long a request waits for a connection to Postgres before a 503"
    )
    gateway_timeout_s: float = Field(
        5.0, gt=0, le=60, description="how long a request waits for Postgres's answer before a 503"
    )
    gateway_body_s: float = Field(10.0, gt=0, description="a request's body must arrive within this time")

    @field_validator("gateway_oidc_issuer")
    @classmethod
    def _issuer_is_safe(cls, issuer: str | None) -> str | None:
        if issuer is not None and (not is_safe_url(issuer) or "?" in issuer):
            raise ValueError("it must be an https address without a query, or an http address of this machine")
        return issuer

    @field_validator("gateway_oidc_groups")
    @classmethod
    def _groups_are_readable(cls, groups: str) -> str:
        if groups:
            read_grants(groups)
        return groups

    @property
    def registration(self) -> ClientRegistration | None:
        """The gateway's registration at the identity provider; None: people sign in with keys only.

        errors:  CannotServe  settings are missing, or contradict each other
        """
        if self.gateway_oidc_issuer is None:
            return None
        if self.gateway_oidc_client_id is None or not self.gateway_oidc_groups or self.gateway_url is None:
            raise CannotServe(
                "SHARDCLOCK_GATEWAY_OIDC_ISSUER needs SHARDCLOCK_GATEWAY_OIDC_CLIENT_ID, SHARDCLOCK_GATEWAY_OIDC_GROUPS"
                " and SHARDCLOCK_GATEWAY_URL: set all four"
            )
        if not is_safe_url(self.gateway_url):
            raise CannotServe(
                f"SHARDCLOCK_GATEWAY_URL {self.gateway_url} must be an https address for"
                " SHARDCLOCK_GATEWAY_OIDC_ISSUER: the answer of the identity provider must not travel in clear text"
            )
        if self.gateway_oidc_secret is not None and self.gateway_oidc_secret_file is not None:
            raise CannotServe(
                "SHARDCLOCK_GATEWAY_OIDC_SECRET and SHARDCLOCK_GATEWAY_OIDC_SECRET_FILE both give the secret; leave one"
                " of them out"
            )
        secret = self.gateway_oidc_secret
        return ClientRegistration(
            self.gateway_oidc_issuer,
            self.gateway_oidc_client_id,
            f"{self.gateway_url.rstrip('/')}/console/sign-in/callback",
            GroupGrants(read_grants(self.gateway_oidc_groups)),
            self.gateway_oidc_scopes,
            self.gateway_oidc_groups_claim,
            None if secret is None else secret.get_secret_value(),
            self.gateway_oidc_secret_file,
        )

    @property
    def root_path(self) -> str:
        """The path under which a proxy serves the gateway; the proxy removes this path from the requests."""
        return urlsplit(self.gateway_url or "").path.rstrip("/")

    @property
    def usual_limits(self) -> Limits:
        """The limits of a tenant without its own limits."""
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
