"""The coordinator's settings, each number with its unit and its reason."""

from pydantic import BaseModel, ConfigDict, Field


class CoordinatorSettings(BaseModel):
    """All settings of the coordinator, which finds the database's address on its own node.

    `cluster.settings` reads the numbers from the environment, and checks the relations between these numbers.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    identity: str = ""
    metrics_socket: str | None = None

    reconcile_s: float = Field(
        0.25, gt=0, description="between two turns; a death or a new scale begins the next turn immediately"
    )
    leader_lease_s: float = Field(5.0, gt=0, description="how long a silent leader is waited for")
    suspect_s: float = Field(
        1.2, gt=0, description="a keeper without a sign of life for this long is suspended: four beats and a little"
    )
    silent_s: float = Field(5.0, gt=0, description="a holder without a sign of life for this long is taken for dead")
    stalled_s: float = Field(
        5.0, gt=0, description="an actor that has not registered by then is started on another node, too"
    )
    start_s: float = Field(30.0, gt=0, description="an actor that has not registered by then is given up")
    drain_s: float = Field(3.0, gt=0, description="how long a keeper that was asked to drain is waited for")
    finish_s: float = Field(
        30.0, gt=0, description="how long a worker that is one too many, or on a leaving node, may finish its calls"
    )
    handover_s: float = Field(5.0, gt=0, description="how long a cluster that stops fires on for one that stands by")
    forecast_s: float = Field(5.0, gt=0, description="between two reads of the forecast, if a policy of scale is set")
    shards_ahead_s: float = Field(120.0, gt=0, description="how long before a spike its shards are there")
    nodes_ahead_s: float = Field(300.0, gt=0, description="how long before a spike Ray's autoscaler is asked for nodes")
    give_back_s: float = Field(300.0, gt=0, description="how long a need is remembered before shards are given back")
    retention_days: int = Field(30, ge=1, description="how many past days of the command log are kept")
    coordinator_timeout_s: float = Field(2.0, gt=0, description="for one statement: below the leader's lease")
