"""All settings: one frozen record, read from the environment (`SHARDCLOCK_*`) once, checked together."""

import os
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from coordinator.settings import CoordinatorSettings, CoordinatorTuning
from metrics.report import SOCKET_PATH_MAX
from shards.settings import ShardSettings, ShardTuning
from timers.model import SLOTS
from timers.refusal import shortened

PREFIX = "SHARDCLOCK_"
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")  # libpq's


class InvalidSettings(ValueError):
    """Carries the one sentence about what is wrong with the settings."""


def _default_data_dir() -> Path:
    # The embedded server runs as a user of its own under root, who can't look into root's home.
    if os.geteuid() == 0:
        return Path("/var/lib/shardclock")
    return Path(os.environ.get("XDG_DATA_HOME", "~/.local/share")).expanduser() / "shardclock"


class Settings(ShardTuning, CoordinatorTuning, BaseSettings):
    """Hold what the whole cluster is told."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", allow_inf_nan=False)

    dsn: Annotated[str | None, NoDecode] = Field(None, description="the database; none: an embedded Postgres")
    data_dir: Path = Field(default_factory=_default_data_dir, description="where the embedded Postgres keeps its data")
    postgres_version: int = Field(18, description="of the embedded Postgres, when its data is first made: 16 or 18")
    shards: int | None = Field(None, ge=1, le=SLOTS, description="wanted at start; none: as it was, at first 2")
    ray_address: str | None = Field(None, description="a Ray cluster to join; none: one of our own")
    ray_auth_token: SecretStr | None = Field(None, description="of the Ray cluster to join; our own draws one")
    cluster_id: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="names this cluster on its database; none: drawn",
    )
    identity: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="names the installation that a database belongs to; none: it has no name",
    )
    metrics_host: str = Field(
        "127.0.0.1", min_length=1, description="where the metrics are served: 0.0.0.0 is everywhere"
    )
    metrics_port: int = Field(9840, ge=0, le=65_535, description="and on which port: 0 is any free one")
    metrics_socket: str | None = Field(
        None, min_length=1, description="where shards report to this node's exporter; none: drawn"
    )
    metrics_store: bool = Field(True, description="whether this exporter reads the tables too; one a cluster is enough")

    @field_validator("dsn")
    @classmethod
    def _dsn_is_a_url(cls, dsn: str | None) -> str | None:
        """Refuse what can never connect, without repeating it: it may hold a password."""
        if dsn is not None and not _is_postgres_url(dsn):
            raise InvalidSettings(f"{_name('dsn')} must be a URL such as postgresql://user:password@host:5432/database")
        return dsn

    @field_validator("metrics_socket")
    @classmethod
    def _socket_path_is_short(cls, path: str | None) -> str | None:
        length, most = len((path or "").encode()), SOCKET_PATH_MAX
        if length > most:
            raise InvalidSettings(f"{_name('metrics_socket')} has {length} bytes; a socket's path has at most {most}")
        return path

    @model_validator(mode="after")
    def _numbers_agree(self) -> Self:
        for low, high, why in (
            ("poll_s", "horizon_s", "or a timer falls due before it is claimed"),
            ("statement_timeout_s", "lease_s", "or a statement outlives the lease it works under"),
            ("horizon_s", "lease_s", "or a lease ends before its timer is due"),
            ("heartbeat_s", "suspect_s", "or a healthy shard is suspended"),
            ("suspect_s", "silent_s", "or a shard is ended that was never suspended"),
            ("statement_timeout_s", "silent_s", "or a shard of which one sign of life got stuck is taken for dead"),
            ("fire_batch", "queue_max", "or no batch is ever full"),
            ("claim_batch", "queue_max", "or there is never room to look ahead"),
            ("coordinator_timeout_s", "leader_lease_s", "or a slow statement costs the lead"),
            ("forecast_s", "shards_ahead_s", "or a spike is there before it is seen"),
            ("reconcile_s", "leader_lease_s", "or the lease ends between two turns"),
        ):
            if getattr(self, low) >= getattr(self, high):
                values = f"{getattr(self, low)} and {getattr(self, high)}"
                raise InvalidSettings(f"{_name(low)} must be less than {_name(high)} ({values}), {why}")
        return self

    def of_shard(self, dsn: str) -> ShardSettings:
        """Take out what a shard is told."""
        return ShardSettings(
            dsn=dsn, identity=self.identity or "", metrics_socket=self.metrics_socket, **_part(self, ShardTuning)
        )

    def of_coordinator(self, dsn: str) -> CoordinatorSettings:
        """Take out what the coordinator is told."""
        return CoordinatorSettings(
            dsn=dsn, identity=self.identity or "", metrics_socket=self.metrics_socket, **_part(self, CoordinatorTuning)
        )


def load_settings(**given: Any) -> Settings:
    """Read the environment, with what the command line gives on top; None there means not given.

    errors:  InvalidSettings  names the variable, its value and the rule
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, InvalidSettings):
            raise cause from None
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidSettings(f"{_name(field)} is {shortened(first['input'])}: {first['msg']}") from None


def _is_postgres_url(dsn: str) -> bool:
    try:
        parts = urlsplit(dsn)
        sslmode = parse_qs(parts.query).get("sslmode", ["prefer"])[-1]
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in ("postgresql", "postgres") and port != 0 and sslmode in SSL_MODES


def _name(field: str) -> str:
    return f"{PREFIX}{field.upper()}"


def _part(settings: Settings, tuning: type[ShardTuning | CoordinatorTuning]) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in tuning.model_fields}
