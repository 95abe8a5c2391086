"""An engine's settings, each number with its unit and its reason."""

from pydantic import Field

from shardclock_server.keepers.settings import KeeperSettings
from shardclock_server.sql.processes.apply import DESCENDANTS_MAX


class EngineSettings(KeeperSettings):
    """Hold all settings of one engine; it finds the database's address on its own node."""

    signal_poll_s: float = Field(0.01, gt=0, description="between two looks for signals, while there are some")
    signal_poll_idle_s: float = Field(0.2, gt=0, description="the same, when there have been none for a while")
    signal_stripes: int = Field(
        1, gt=0, le=16, description="batches of one engine at a time: while one is being written, another is advanced"
    )
    signal_batch: int = Field(500, gt=0, description="signals to instances that one statement takes")
    instances_kept_s: float = Field(
        7 * 86_400.0, gt=0, description="how long an instance and its history are kept after its end"
    )
    calls_depth_max: int = Field(
        100,
        gt=0,
        le=1_000,
        description="call activities that wait for each other's children: a cancellation goes down one level in a turn",
    )
    descendants_max: int = Field(
        DESCENDANTS_MAX,
        gt=0,
        le=1_000_000,
        description="called instances below one instance that live at a time: some seconds' work to cancel",
    )
    statement_timeout_s: float = Field(3.0, gt=0, description="how long one statement may take")
