"""The response models of the cluster."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import MOMENT
from shardclock_server.service.hold import Release
from shardclock_server.service.scaling import Scale
from shardclock_server.sql.cluster.holders import ENGINE, SHARD, WORKER, Holder
from shardclock_server.sql.cluster.leadership import ScalingPolicy
from shardclock_server.sql.metrics.forecast import Forecast
from shardclock_server.sql.metrics.processes import ProcessMeasures
from shardclock_server.sql.metrics.status import Status


class KeeperAnswer(Answer):
    """A keeper (a shard, a worker or an engine), and the part of the slots that the keeper holds."""

    holder: str = Field(examples=["7d40eda6502a1f43"])
    cluster_id: str = Field(examples=["5f1d7a9b03c2e846"])
    host: str = Field(examples=["node-1"])
    pid: int = Field(examples=[4242])
    part: int | None = Field(
        examples=[0], description="the number of the keeper's part of the slots; null: the keeper has no slots"
    )
    part_count: int | None = Field(examples=[2])
    held: int = Field(examples=[120], description="the number of leased timers, or of claimed deliveries")
    started_at: datetime = MOMENT
    seen_at: datetime = MOMENT
    suspended_at: datetime | None

    @classmethod
    def of(cls, keeper: Holder) -> Self:
        """Create the response model from a stored holder."""
        fields = {name: getattr(keeper, name) for name in cls.model_fields}
        return cls(**fields | {"holder": f"{keeper.holder:016x}"})


class ClusterAnswer(Answer):
    """The state of the cluster."""

    pending: int = Field(examples=[10_000])
    paused: int = Field(examples=[3])
    overdue: int = Field(
        examples=[0], description="overdue timers; the number is an estimate if there are more than about 170,000"
    )
    oldest_overdue_s: float = Field(examples=[0.0])
    left_by_outage: int = Field(examples=[0])
    ramp_per_s: int | None = Field(examples=[2_000])
    lag_p50_ms: float | None = Field(
        examples=[1.9],
        description="the lag of the last 1,000 firings in the log's last 10,000 records; null: none contains a firing",
    )
    lag_p99_ms: float | None = Field(examples=[4.2])
    shards_wanted: int = Field(examples=[2])
    workers_wanted: int = Field(examples=[2])
    deliveries: int = Field(examples=[12])
    dead_letters: int = Field(examples=[0])
    engines_wanted: int = Field(examples=[1], description="0: no process was ever deployed")
    signals_waiting: int = Field(
        examples=[0], description="signals to instances, due or deferred, counted up to 10,000"
    )
    oldest_signal_s: float = Field(examples=[0.0], description="the time since the oldest waiting signal became due")
    incidents: int = Field(examples=[0], description="open incidents, counted up to 10,000")
    leader_alive: bool = Field(examples=[True])
    server_time: datetime = MOMENT
    hold: str | None = Field(description="the reason why no timer may fire; null: timers may fire")
    shards: list[KeeperAnswer]
    workers: list[KeeperAnswer]
    engines: list[KeeperAnswer]
    timers_per_minute: list[int] = Field(
        examples=[[600, 600, 612, 600, 600, 600, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
        description="timers due in each of the next 15 minutes",
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
        """Combine the measurements of the cluster."""
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


class ForecastAnswer(Answer):
    """The timers that are due in the next 15 minutes, and the capacity of the living shards."""

    timers_per_minute: list[int] = Field(
        examples=[[600, 600, 612, 600, 600, 600, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
        description="timers due in each of the next 15 minutes; the real numbers may be higher",
    )
    peak_per_s: float = Field(examples=[14.5], description="due timers a second in the busiest ten seconds")
    estimated: bool = Field(examples=[False])
    capacity_per_s: int = Field(examples=[40_000])
    shards_wanted: int = Field(examples=[2])
    shards_min: int | None = Field(examples=[None], description="null: no policy")
    shards_max: int | None = Field(examples=[None])
    target_per_s: int = Field(examples=[20_000], description="the planned load of one shard, in timers a second")
    shards_alive: int = Field(examples=[2])

    @classmethod
    def of(cls, coming: Forecast, policy: ScalingPolicy) -> Self:
        """Create the response model from a forecast and a scaling policy."""
        return cls(
            timers_per_minute=list(coming.minutes),
            peak_per_s=coming.peak_per_s,
            estimated=coming.estimated,
            capacity_per_s=policy.capacity_per_s,
            shards_wanted=policy.wanted,
            shards_min=policy.wanted_min,
            shards_max=policy.wanted_max,
            target_per_s=policy.target_per_s,
            shards_alive=policy.alive,
        )


class ScaleAnswer(Answer):
    """The number of wanted keepers of one role, and the number of serving keepers."""

    role: str = Field(examples=["shard"])
    wanted: int = Field(examples=[4])
    serving: int = Field(examples=[2], description="the keepers that have slots now")
    min: int | None = Field(examples=[None], description="the lower bound of the forecast's policy; null: no policy")
    max: int | None = Field(examples=[None])
    target_per_s: int = Field(examples=[20_000], description="the planned load of one keeper, in timers a second")

    @classmethod
    def of(cls, scale: Scale) -> Self:
        """Create the response model from a stored scale."""
        policy = scale.policy
        return cls(
            role=scale.role,
            wanted=policy.wanted,
            serving=scale.serving,
            min=policy.wanted_min,
            max=policy.wanted_max,
            target_per_s=policy.target_per_s,
        )


class ScalesAnswer(Answer):
    """The numbers of wanted and of serving shards, workers and engines."""

    scales: list[ScaleAnswer]


class RampAnswer(Answer):
    """The rate for timers that an outage left overdue, before and after this request; null means no limit."""

    before: int | None = Field(examples=[150_000])
    per_s: int | None = Field(examples=[2_000])


class HoldAnswer(Answer):
    """An operator's hold on the database."""

    reason: str = Field(examples=["billing is down"])
    before: str | None = Field(
        examples=[None], description="the reason of an operator's earlier hold; null: there was no earlier hold"
    )


class ReleaseAnswer(Answer):
    """The result of a release: the old and the new owner, the due timers, and whether the database was released."""

    released: bool = Field(examples=[True], description="false: the database was not on hold, or this was a dry run")
    hold: str | None = Field(
        examples=["an operator said: billing is down"],
        description="the reason of the hold; null: the database was not on hold",
    )
    belonged_to: str | None = Field(
        examples=["prod"], description="the former owner of the database; null: an installation without a name"
    )
    belongs_to: str | None = Field(
        examples=["prod"], description="the owner after the release; in a dry run, the owner that a release would set"
    )
    pending: int = Field(examples=[10_000])
    overdue: int = Field(examples=[120])
    overdue_estimated: bool = Field(examples=[False])
    left_by_outage: int = Field(examples=[100], description="overdue timers that the ramp holds back")

    @classmethod
    def of(cls, found: Release) -> Self:
        """Create the response model from the result of a release."""
        status = found.status
        return cls(
            released=found.released,
            hold=found.owner.hold_reason,
            belonged_to=found.owner.name,
            belongs_to=found.name if found.owner.hold_reason else found.owner.name,
            pending=status.pending,
            overdue=status.overdue,
            overdue_estimated=status.overdue_estimated,
            left_by_outage=status.left_by_outage,
        )
