"""The coordinator's settings."""

from pydantic import BaseModel, ConfigDict, Field


class CoordinatorSettings(BaseModel):
    """All settings of the coordinator.

    The database's address is not a setting: the coordinator reads the address on its own node.

    `cluster.settings` reads the numbers from the environment, and checks the relations between these numbers.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    identity: str = ""
    metrics_socket: str | None = None

    reconcile_s: float = Field(
        0.25,
        gt=0,
        description="the pause between two iterations; the death of a keeper or a change of the scale ends the pause",
    )
    leader_lease_s: float = Field(5.0, gt=0, description="how long other coordinators wait for a silent leader")
    suspect_s: float = Field(
        1.3, gt=0, description="a keeper without a heartbeat for this long, slightly more than five beats, is suspended"
    )
    retry_max_s: float = Field(1.0, gt=0, description="the longest wait between two attempts while Postgres is down")
    silent_s: float = Field(5.0, gt=0, description="a holder without a heartbeat for this long is considered dead")
    stalled_s: float = Field(
        5.0, gt=0, description="if an actor has not registered after this time, a second actor starts on another node"
    )
    start_s: float = Field(30.0, gt=0, description="an actor that has not registered after this time is killed")
    drain_s: float = Field(3.0, gt=0, description="the longest wait for a draining keeper")
    finish_s: float = Field(30.0, gt=0, description="the time for a retired worker to finish its calls")
    handover_s: float = Field(
        5.0,
        gt=0,
        description="how long a stopping cluster continues to fire while it waits for another cluster to take over",
    )
    forecast_s: float = Field(
        5.0, gt=0, description="the time between two reads of the forecast, if a scaling policy is set"
    )
    shards_ahead_s: float = Field(120.0, gt=0, description="the time before a spike at which the shards must be ready")
    nodes_ahead_s: float = Field(
        300.0, gt=0, description="the time before a spike at which nodes are requested from Ray"
    )
    give_back_s: float = Field(
        300.0, gt=0, description="how long the number of shards does not fall after the need has fallen"
    )
    retention_days: int = Field(30, ge=1, description="how many past days the command log keeps")
    coordinator_timeout_s: float = Field(
        2.0, gt=0, description="the timeout of a statement, which must be shorter than the leader's lease"
    )
