"""The settings that every keeper has, each number with its unit and its reason."""

from pydantic import BaseModel, ConfigDict, Field


class KeeperSettings(BaseModel):
    """Hold what shards, workers and engines are told alike; each finds the database's address on its own node."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    identity: str = ""
    metrics_socket: str | None = None

    heartbeat_s: float = Field(0.25, gt=0, description="between two signs of life in the holders table")
    statement_timeout_s: float = Field(3.0, gt=0, description="below the lease, so that no statement outlives it")
    retry_max_s: float = Field(1.0, gt=0, description="longest wait between two tries when Postgres is away")
