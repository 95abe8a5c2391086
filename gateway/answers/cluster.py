"""What is answered about the cluster."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from pydantic import Field

from gateway.answers.answer import MOMENT, Answer
from sql.cluster.holders import ENGINE, SHARD, WORKER, Holder
from sql.metrics.forecast import Forecast
from sql.metrics.processes import ProcessMeasures
from sql.metrics.status import Status


class KeeperAnswer(Answer):
    """A shard, a worker or an engine, and which part of the slots it keeps."""

    holder: str = Field(examples=["7d40eda6502a1f43"])
    cluster_id: str = Field(examples=["5f1d7a9b03c2e846"])
    host: str = Field(examples=["node-1"])
    pid: int = Field(examples=[4242])
    part: int | None = Field(examples=[0], description="null: it keeps none")
    part_count: int | None = Field(examples=[2])
    held: int = Field(examples=[120], description="timers leased, or deliveries in hand")
    started_at: datetime = MOMENT
    seen_at: datetime = MOMENT
    suspended_at: datetime | None

    @classmethod
    def of(cls, keeper: Holder) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(keeper, name) for name in cls.model_fields}
        return cls(**fields | {"holder": f"{keeper.holder:016x}"})


class ClusterAnswer(Answer):
    """The cluster, as an operator sees it."""

    pending: int = Field(examples=[10_000])
    paused: int = Field(examples=[3])
    overdue: int = Field(examples=[0], description="an estimate, if there are more than about 170,000")
    oldest_overdue_s: float = Field(examples=[0.0])
    left_by_outage: int = Field(examples=[0])
    ramp_per_s: int | None = Field(examples=[2_000])
    lag_p50_ms: float | None = Field(examples=[1.9], description="of the firings among the last thousand records")
    lag_p99_ms: float | None = Field(examples=[4.2])
    shards_wanted: int = Field(examples=[2])
    workers_wanted: int = Field(examples=[2])
    deliveries: int = Field(examples=[12])
    dead_letters: int = Field(examples=[0])
    engines_wanted: int = Field(examples=[1], description="0: no process was ever deployed")
    signals_waiting: int = Field(examples=[0], description="to instances, due or put off; counted up to 10,000")
    oldest_signal_s: float = Field(examples=[0.0], description="how long the oldest of them has been due")
    incidents: int = Field(examples=[0], description="open, counted up to 10,000")
    leader_alive: bool = Field(examples=[True])
    server_time: datetime = MOMENT
    hold: str | None = Field(description="why nothing may fire; null: it may")
    shards: list[KeeperAnswer]
    workers: list[KeeperAnswer]
    engines: list[KeeperAnswer]
    timers_per_minute: list[int] = Field(
        examples=[[600, 600, 612, 600, 600, 600, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
        description="due in each of the next 15 minutes",
    )
    peak_per_s: float = Field(examples=[14.5])

    @classmethod
    def of(
        cls,
        status: Status,
        processes: ProcessMeasures,
        keepers: Sequence[Holder],
        coming: Forecast,
        *,
        hold: str | None,
    ) -> Self:
        """Make it of what was found."""
        known = {
            name: getattr(found, name)
            for found in (status, processes)
            for name in cls.model_fields
            if hasattr(found, name)
        }
        return cls(
            **known,
            hold=hold,
            shards=[KeeperAnswer.of(keeper) for keeper in keepers if keeper.role == SHARD],
            workers=[KeeperAnswer.of(keeper) for keeper in keepers if keeper.role == WORKER],
            engines=[KeeperAnswer.of(keeper) for keeper in keepers if keeper.role == ENGINE],
            timers_per_minute=list(coming.minutes),
            peak_per_s=coming.peak_per_s,
        )
