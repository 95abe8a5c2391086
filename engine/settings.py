"""The settings of an engine."""

from pydantic import Field

from shardclock_server.keepers.settings import KeeperSettings
from shardclock_server.sql.processes.apply import DESCENDANTS_MAX


class EngineSettings(KeeperSettings):
    """The settings of one engine; the database's address comes from its node."""

    signal_poll_s: float = Field(
        0.01, gt=0, description="the longest pause between two polls in the first 2 s after the last due signal"
    )
    signal_poll_idle_s: float = Field(
        0.2, gt=0, description="the pause between two polls after 2 s without a due signal"
    )
    signal_stripes: int = Field(
        1, gt=0, le=16, description="concurrent batches of one engine: the engine advances one while it writes another"
    )
    signal_batch: int = Field(500, gt=0, description="signals that one statement reads")
    instances_kept_s: float = Field(
        7 * 86_400.0,
        gt=0,
        description="how long the database keeps an ended instance and its history",
    )
    calls_depth_max: int = Field(
        100,
        gt=0,
        le=1_000,
        description="the limit of nested call activities; a cancellation reaches one more level in each turn",
    )
    descendants_max: int = Field(
        DESCENDANTS_MAX,
        gt=0,
        le=1_000_000,
        description="the limit of running child instances below an instance; cancelling all takes some seconds",
    )
    statement_timeout_s: float = Field(3.0, gt=0, description="the timeout of a statement")
