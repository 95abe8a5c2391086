"""Ask for the explanation of a timer as the command line does."""

from __future__ import annotations

from datetime import datetime

from shardclock_server.service.explain import Explanation, explain
from shardclock_server.service.timeline import read_timeline
from shardclock_server.sql.clients.verbs import TimerRef
from tests.support.factories import HolderClient


async def why(shard: HolderClient, which: TimerRef, moment: datetime | None = None) -> Explanation:
    """Ask why a timer has fired or not, as seen at a given time, which is now by default."""
    now: datetime = await shard.value("select clock_timestamp()")
    moment = moment or now
    return explain(await read_timeline(shard.session, which, moment, now, identity="", silent_s=5.0), moment)
