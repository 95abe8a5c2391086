"""All settings in one frozen record: read once from the environment (`SHARDCLOCK_*`), and checked together.

The record has the settings of the whole cluster, and one nested record for each package with its own settings. The
names of environment variables do not contain the package: `SHARDCLOCK_HORIZON_S` sets `settings.shard.horizon_s`.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.gateway.settings import GatewaySettings
from shardclock_server.keepers.settings import written_as
from shardclock_server.metrics.report import SOCKET_PATH_MAX
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.sql.dsn import RULE, Dsn, InvalidDsn
from shardclock_server.timers.model import SLOTS
from shardclock_server.timers.refusal import shortened
from shardclock_server.workers.settings import WorkerSettings

PREFIX = "SHARDCLOCK_"
# The variables that `up` sets for its host process (cluster/host.py), without the prefix.
OF_HOST = frozenset({"HOST_CLUSTER_ID", "HOST_TEMP_DIR", "HOST_EMBEDDED", "HOST_KEEP_RUNNING", "HOST_APP"})
# The variables of the HTTP API's client (client/shardclock/http/address.py), without the prefix.
OF_CLIENT = frozenset({"API_KEY", "API_URL"})
# The packages' records of settings, by field name in `Settings`. If a package's record and `Settings` have a field of
# the same name, both fields have the same value.
PARTS: Mapping[str, type[BaseModel]] = {
    "shard": ShardSettings,
    "worker": WorkerSettings,
    "engine": EngineSettings,
    "coordinator": CoordinatorSettings,
    "gateway": GatewaySettings,
}
# The settings that `environment` omits: secrets, and paths that each process chooses itself.
NOT_IN_ENVIRONMENT = frozenset({"ray_auth_token", "dsn", "dsn_file", "gateway_oidc_secret", "metrics_socket"})
# Pairs of settings. The first setting must be less than the second; the text describes the consequence of a violation.
RELATIONS = (
    ("poll_s", "horizon_s", "otherwise a timer becomes due before it is claimed"),
    ("statement_timeout_s", "lease_s", "otherwise the lease expires while a statement runs"),
    ("horizon_s", "lease_s", "otherwise a lease expires before its timer is due"),
    ("heartbeat_s", "suspect_s", "otherwise a healthy keeper is suspended"),
    ("suspect_s", "silent_s", "otherwise a keeper is ended before it is suspended"),
    ("statement_timeout_s", "delivery_lease_s", "otherwise the lease expires while a statement runs"),
    ("statement_timeout_s", "run_lease_s", "otherwise the lease expires while a statement runs"),
    ("statement_timeout_s", "silent_s", "otherwise one delayed heartbeat makes a living keeper count as dead"),
    ("stalled_s", "start_s", "otherwise the coordinator gives up an actor before the actor starts on another node"),
    ("fire_batch", "queue_max", "otherwise no batch is ever full"),
    ("claim_batch", "queue_max", "otherwise no scan can look ahead"),
    ("coordinator_timeout_s", "leader_lease_s", "otherwise a slow statement ends the leader's lease"),
    ("forecast_s", "shards_ahead_s", "otherwise a spike begins before the forecast shows it"),
    ("reconcile_s", "leader_lease_s", "otherwise the lease expires between two turns"),
    ("gateway_wait_s", "gateway_timeout_s", "otherwise the gateway waits longer for a connection than for a response"),
)
# Regular expressions for values of settings, each with a description for the user.
MODULES = (
    r"[A-Za-z_][\w.:]*(,[A-Za-z_][\w.:]*)*",
    "names of modules with commas between them, such as orders,mail.jobs",
)
LABEL = (
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
    "1 to 63 letters, digits, ., _ and -, a letter or digit first, such as blue-2",
)
# Variables that Kubernetes sets in each pod for a service with a name that begins with `shardclock`.
SERVICE_LINK = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$")


class InvalidSettings(ValueError):
    """The faults of the settings: one line with one sentence for each fault."""

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def _default_data_dir() -> Path:
    # For root, the directory is outside of root's home, because the embedded server runs as a user that can't read
    # root's home.
    if os.geteuid() != 0:
        with suppress(RuntimeError):  # a user without a name has no home, unless HOME names a directory
            return Path(os.environ.get("XDG_DATA_HOME", "~/.local/share")).expanduser() / "shardclock"
    return Path("/var/lib/shardclock")


class Settings(BaseModel):
    """All settings of the cluster."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    shard: ShardSettings = Field(default_factory=ShardSettings, description="the settings of each shard")
    worker: WorkerSettings = Field(default_factory=WorkerSettings, description="the settings of each worker")
    engine: EngineSettings = Field(default_factory=EngineSettings, description="the settings of each engine")
    coordinator: CoordinatorSettings = Field(
        default_factory=CoordinatorSettings, description="the settings of the coordinator"
    )
    gateway: GatewaySettings = Field(default_factory=GatewaySettings, description="the settings of each gateway")

    dsn: SecretStr | None = Field(None, description="the database; without dsn and dsn_file: an embedded Postgres")
    dsn_file: Path | None = Field(None, description="a file with the DSN, which is read for each connection")
    data_dir: Path = Field(default_factory=_default_data_dir, description="the data directory of the embedded Postgres")
    postgres_version: int = Field(18, description="the version of a new embedded Postgres: 16 or 18")
    app: Annotated[str, written_as(*MODULES)] | None = Field(
        None, description="the modules that declare handlers, separated by commas"
    )
    python: str | None = Field(
        None, min_length=1, description="the Python that runs handlers and jobs; by default the Python of `up`"
    )
    shards: int | None = Field(
        None, ge=1, le=SLOTS, description="the number of shards at the start; by default the last number, at first 2"
    )
    local: bool = Field(False, description="whether the keepers run as processes of this machine, without Ray")
    standby: bool = Field(True, description="whether local keepers stand by beside Shardclock's own Ray")
    ray_address: str | None = Field(
        None, min_length=1, description="the Ray cluster to join; by default `up` starts its own"
    )
    ray_auth_token: SecretStr | None = Field(
        None, min_length=1, description="the token of the Ray cluster to join; by default random for our own cluster"
    )
    cluster_id: Annotated[str, written_as(*LABEL)] | None = Field(
        None, description="the name of this cluster on its database; by default a random name"
    )
    identity: Annotated[str, written_as(*LABEL)] | None = Field(
        None, description="the name of the installation to which the database belongs; by default no name"
    )
    metrics_host: str = Field(
        "127.0.0.1", min_length=1, description="the address at which the exporter listens; 0.0.0.0 means all addresses"
    )
    metrics_port: int = Field(
        9840, ge=0, le=65_535, description="the port at which the exporter listens; 0 means any free port"
    )
    metrics_socket: str | None = Field(
        None, min_length=1, description="the socket at which this node's exporter gets reports; by default a new one"
    )
    gateway_enabled: bool = Field(True, description="whether `up` starts a gateway, which serves the HTTP API")
    metrics_store: bool = Field(
        True, description="whether this exporter also reads the tables; one exporter per cluster is enough"
    )

    @model_validator(mode="before")
    @classmethod
    def _compose(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Group the flat settings into one record for each package."""
        parts = {part: {name: given[name] for name in of.model_fields if name in given} for part, of in PARTS.items()}
        return given | parts

    @field_validator("dsn")
    @classmethod
    def _dsn_is_a_url(cls, dsn: SecretStr | None) -> SecretStr | None:
        """Refuse an invalid DSN; the message does not show the DSN, because it may contain a password."""
        if dsn is not None:
            try:
                Dsn(dsn.get_secret_value())
            except InvalidDsn:
                raise InvalidSettings(f"{_name('dsn')} {RULE}") from None
        return dsn

    @field_validator("dsn_file")
    @classmethod
    def _dsn_file_holds_one(cls, file: Path | None) -> Path | None:
        if file is not None:
            try:
                Dsn(file=file).reveal()
            except InvalidDsn as error:
                raise InvalidSettings(f"{_name('dsn_file')}: {error}") from None
        return file

    @field_validator("data_dir", mode="before")
    @classmethod
    def _data_dir_is_named(cls, directory: object) -> object:
        """Refuse the empty path, which would mean the current directory."""
        if directory == "":
            raise InvalidSettings(f"{_name('data_dir')} is empty; name a directory, or leave it out")
        return directory

    @field_validator("metrics_socket")
    @classmethod
    def _socket_path_is_short(cls, path: str | None) -> str | None:
        length, most = len((path or "").encode()), SOCKET_PATH_MAX
        if length > most:
            raise InvalidSettings(f"{_name('metrics_socket')} has {length} bytes; a socket's path has at most {most}")
        return path

    def find_dsn(self) -> Dsn | None:
        """Return the database's address; None means the embedded database."""
        if self.dsn_file is not None:
            return Dsn(file=self.dsn_file)
        return Dsn(self.dsn.get_secret_value()) if self.dsn is not None else None

    @property
    def has_stand_by(self) -> bool:
        """Return whether local keepers stand by for our own Ray, because Ray's keepers end together with Ray."""
        return self.standby and not self.local and self.ray_address is None

    def named(self) -> dict[str, Any]:
        """Return all settings by their flat names."""
        own = {name: getattr(self, name) for name in type(self).model_fields if name not in PARTS}
        return {name: value for part in PARTS for name, value in getattr(self, part)} | own

    def environment(self) -> dict[str, str]:
        """Return the settings as variables for another process, without secrets and paths."""
        given = {name: value for name, value in self.named().items() if name not in NOT_IN_ENVIRONMENT}
        return {_name(name): str(value) for name, value in given.items() if value is not None}


SETTING_NAMES = tuple(Settings().named())


def load_settings(**given: Any) -> Settings:
    """Read the environment; values in `given`, from the command line, have precedence.

    None in `given` means that the value was not given.

    errors:  InvalidSettings  the message names each invalid option or variable, with its value and the rule
    """
    options = {name: value for name, value in given.items() if value is not None}
    values = _in_environment(os.environ) | options
    wrong: dict[str, str] = {}
    try:
        settings = Settings(**values)
    except ValidationError as error:
        wrong = dict(_fault(report, options) for report in error.errors(include_url=False))
        # Defaults replace invalid values, so that all other settings are checked, too.
        settings = Settings(**{name: value for name, value in values.items() if name not in wrong})
    faults = [*wrong.values(), *_disagreements(settings, but=wrong)]
    if faults:
        raise InvalidSettings(*faults)
    return settings


def unknown_settings(environment: Mapping[str, str]) -> list[str]:
    """Return a warning for each environment variable that has our prefix but is not a setting.

    The warning names the most similar setting. An unknown variable is not refused:
    docs/decisions/0029-unknown-settings-are-told.md.
    """
    known = {name.upper() for name in SETTING_NAMES}
    asked = {name: name.upper().removeprefix(PREFIX) for name in sorted(environment) if name.upper().startswith(PREFIX)}
    unknown = {
        name: rest
        for name, rest in asked.items()
        if rest not in known | OF_HOST | OF_CLIENT and not _is_service_link(name, environment[name])
    }
    return [
        f"{name} is not a setting of Shardclock, and changes nothing{_meant(rest, known)}"
        for name, rest in unknown.items()
    ]


def _in_environment(environment: Mapping[str, str]) -> dict[str, str]:
    upper = {variable.upper(): value for variable, value in environment.items()}
    return {name: upper[variable] for name in SETTING_NAMES if (variable := _name(name)) in upper}


def _meant(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; is {PREFIX}{near[0]} meant?" if near else "; remove it, or correct its name"


def _is_service_link(name: str, value: str) -> bool:
    return bool(SERVICE_LINK.search(name)) or (name.endswith("_PORT") and "://" in value)


def _fault(report: Any, options: Collection[str]) -> tuple[str, str]:
    """Return the invalid field, and a sentence that names the option or environment variable that the user gave."""
    field = str(report["loc"][-1])
    cause = report.get("ctx", {}).get("error")
    if isinstance(cause, InvalidSettings):
        return field, str(cause)
    name = f"--{field.replace('_', '-')}" if field in options else _name(field)
    return field, f"{name} is {shortened(report['input'])}: {cause or report['msg']}"


def _disagreements(settings: Settings, *, but: Collection[str]) -> Iterator[str]:
    """Check the relations between settings; skip settings with invalid values."""
    if settings.dsn is not None and settings.dsn_file is not None:
        yield f"{_name('dsn')} and {_name('dsn_file')} both name the database; remove one of the two"
    if settings.local and settings.ray_address is not None:
        yield (
            f"{_name('local')} (or --local) runs the keepers on this machine, and {_name('ray_address')} names a Ray"
            " for them; remove one of the two"
        )
    named = settings.named()
    for low, high, why in RELATIONS:
        if low not in but and high not in but and named[low] >= named[high]:
            values = f"{named[low]} and {named[high]}"
            yield f"{_name(low)} must be less than {_name(high)} ({values}), {why}"


def _name(field: str) -> str:
    return f"{PREFIX}{field.upper()}"
