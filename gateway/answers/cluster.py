"""What is answered about the cluster."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from pydantic import Field

from gateway.answers.answer import Answer
from sql.cluster.holders import SHARD, WORKER, Holder
from sql.metrics.forecast import Forecast
from sql.metrics.status import Status


class KeeperAnswer(Answer):
    """A shard or a worker, and which part of the slots it keeps."""

    holder: str = Field(examples=["7d40eda6502a1f43"])
    cluster_id: str
    host: str
    pid: int
    part: int | None = Field(description="null: it keeps none")
    part_count: int | None
    held: int = Field(description="timers leased, or deliveries in hand")
    started_at: datetime
    seen_at: datetime
    suspended_at: datetime | None

    @classmethod
    def of(cls, keeper: Holder) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(keeper, name) for name in cls.model_fields}
        return cls(**fields | {"holder": f"{keeper.holder:016x}"})


class ClusterAnswer(Answer):
    """The cluster, as an operator sees it."""

    pending: int
    paused: int
    overdue: int = Field(description="an estimate, if there are more than about 170,000")
    oldest_overdue_s: float
    left_by_outage: int
    ramp_per_s: int | None
    lag_p50_ms: float | None = Field(description="of the firings among the last thousand records")
    lag_p99_ms: float | None
    shards_wanted: int
    workers_wanted: int
    deliveries: int
    dead_letters: int
    leader_alive: bool
    server_time: datetime
    hold: str | None = Field(description="why nothing may fire; null: it may")
    shards: list[KeeperAnswer]
    workers: list[KeeperAnswer]
    timers_per_minute: list[int] = Field(description="due in each of the next 15 minutes")
    peak_per_s: float

    @classmethod
    def of(cls, status: Status, keepers: Sequence[Holder], coming: Forecast, hold: str | None) -> Self:
        """Make it of what was found."""
        known = {name: getattr(status, name) for name in cls.model_fields if hasattr(status, name)}
        return cls(
            **known,
            hold=hold,
            shards=[KeeperAnswer.of(keeper) for keeper in keepers if keeper.role == SHARD],
            workers=[KeeperAnswer.of(keeper) for keeper in keepers if keeper.role == WORKER],
            timers_per_minute=list(coming.minutes),
            peak_per_s=coming.peak_per_s,
        )
