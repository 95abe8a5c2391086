"""A shard's settings."""

from pydantic import Field

from shardclock_server.keepers.settings import KeeperSettings
from shardclock_server.sql.claims.claim import RAMP_AFTER_S
from shardclock_server.sql.claims.notifications import SHARD_POLL_S


class ShardSettings(KeeperSettings):
    """All settings of one shard. The database's address is not a setting: the shard reads the address on its node.

    `cluster.settings` reads the numbers from the environment, and checks the relations between these numbers.
    """

    poll_s: float = Field(
        SHARD_POLL_S,
        gt=0,
        description="the pause between two claims; a timer that is due immediately fires at most this late",
    )
    horizon_s: float = Field(2.0, gt=0, description="how long before its due date a timer is leased")
    lease_s: float = Field(
        10.0, gt=0, description="the duration of a lease; afterwards any shard may lease a dead shard's timers"
    )
    claim_batch: int = Field(4_200, gt=0, description="the most timers of one claim: five for each of 840 slots")
    fire_batch: int = Field(1_000, gt=0, description="one statement fires at most this many timers, in about 15 ms")
    queue_max: int = Field(20_000, gt=0, description="the limit of timers in memory; up to three claims may exceed it")
    sweep_s: float = Field(1.0, gt=0, description="the time between two sweeps over all slots")
    sweep_grace_s: float = Field(
        3.0, gt=0, lt=RAMP_AFTER_S, description="a timer of any slot is swept if it is overdue by more than this"
    )
