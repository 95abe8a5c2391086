"""What is answered about the cluster."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import MOMENT
from shardclock_server.service.hold import Release
from shardclock_server.service.scaling import Scale
from shardclock_server.sql.cluster.holders import ENGINE, SHARD, WORKER, Holder
from shardclock_server.sql.cluster.leadership import Policy
from shardclock_server.sql.metrics.forecast import Forecast
from shardclock_server.sql.metrics.processes import ProcessMeasures
from shardclock_server.sql.metrics.status import Status


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


class ForecastAnswer(Answer):
    """The timers that are coming, against what the living shards can fire."""

    timers_per_minute: list[int] = Field(
        examples=[[600, 600, 612, 600, 600, 600, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
        description="due in each of the next 15 minutes; a lower bound",
    )
    peak_per_s: float = Field(examples=[14.5], description="of the busiest ten seconds")
    estimated: bool = Field(examples=[False])
    capacity_per_s: int = Field(examples=[40_000])
    shards_wanted: int = Field(examples=[2])
    shards_min: int | None = Field(examples=[None], description="null: no policy")
    shards_max: int | None = Field(examples=[None])
    target_per_s: int = Field(examples=[20_000], description="timers a second that are planned for each shard")
    shards_alive: int = Field(examples=[2])

    @classmethod
    def of(cls, coming: Forecast, policy: Policy) -> Self:
        """Make it of what was found."""
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
    """How many keepers of a role are wanted, and how many serve."""

    role: str = Field(examples=["shard"])
    wanted: int = Field(examples=[4])
    serving: int = Field(examples=[2], description="those that keep slots now")
    min: int | None = Field(examples=[None], description="the fewest that the forecast may ask for; null: no policy")
    max: int | None = Field(examples=[None])
    target_per_s: int = Field(examples=[20_000], description="timers a second that are planned for each")

    @classmethod
    def of(cls, scale: Scale) -> Self:
        """Make it of what was found."""
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
    """How many shards, workers and engines are wanted, and how many serve."""

    scales: list[ScaleAnswer]


class RampAnswer(Answer):
    """How fast the timers that an outage left overdue were fired, and are from now on; null is no limit."""

    before: int | None = Field(examples=[150_000])
    per_s: int | None = Field(examples=[2_000])


class HoldAnswer(Answer):
    """A hold that an operator has put on the database."""

    reason: str = Field(examples=["billing is down"])
    before: str | None = Field(examples=[None], description="the reason of an operator's hold that was there before")


class ReleaseAnswer(Answer):
    """Whose the database was and would be, what would fire, and whether it was released."""

    released: bool = Field(examples=[True], description="false: it was not on hold, or this was a dry run")
    hold: str | None = Field(examples=["an operator said: billing is down"], description="null: it was not on hold")
    belonged_to: str | None = Field(examples=["prod"], description="the installation; null: one without a name")
    belongs_to: str | None = Field(examples=["prod"], description="from now on, or if it were released")
    pending: int = Field(examples=[10_000])
    overdue: int = Field(examples=[120])
    overdue_estimated: bool = Field(examples=[False])
    left_by_outage: int = Field(examples=[100], description="of the overdue ones, those that the ramp holds back")

    @classmethod
    def of(cls, found: Release) -> Self:
        """Make it of what was found."""
        status = found.status
        return cls(
            released=found.released,
            hold=found.whose.hold_reason,
            belonged_to=found.whose.name,
            belongs_to=found.name if found.whose.hold_reason else found.whose.name,
            pending=status.pending,
            overdue=status.overdue,
            overdue_estimated=status.overdue_estimated,
            left_by_outage=status.left_by_outage,
        )
