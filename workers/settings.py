"""A worker's settings, each number with its unit and its reason."""

from pydantic import BaseModel, ConfigDict, Field


class WorkerSettings(BaseModel):
    """Hold all settings of one worker; it finds the database's address on its own node."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    identity: str = ""
    metrics_socket: str | None = None

    delivery_poll_s: float = Field(0.1, gt=0, description="between two looks for due deliveries, if no hint comes")
    delivery_lease_s: float = Field(10.0, gt=0, description="how long a silent worker keeps what it has in hand")
    delivery_batch: int = Field(1_000, gt=0, description="deliveries claimed, or settled, by one statement")
    heartbeat_s: float = Field(0.25, gt=0, description="between two signs of life in the holders table")
    statement_timeout_s: float = Field(3.0, gt=0, description="below the lease, so that no statement outlives it")
    retry_max_s: float = Field(1.0, gt=0, description="longest wait between two tries when Postgres is away")
