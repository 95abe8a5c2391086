"""During fifty switches of the lead under load, each timer fires exactly once, and not early.

A cluster of local processes replaces the cluster of Ray, because Ray takes many seconds to start again.
`test_stand_by.py` uses a real Ray.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from shardclock_server.cluster.host_events import LOST, found
from shardclock_server.cluster.host_process import HostProcess, local_host
from shardclock_server.cluster.hosts import stand_by_of
from shardclock_server.cluster.local_order import LocalOrder
from shardclock_server.sql.cluster.holders import LOCAL_NODE, SHARD
from tests.support.factories import holders_of, sql
from tests.support.local_cluster import Records
from tests.support.program import until
from tests.support.roles import as_role

pytestmark = pytest.mark.exhaustive

RAY, STAND_BY = "blue", stand_by_of("blue")
WANT_ONE = "update shardclock.scale set wanted = 1"
SWITCHES = 50
TIMERS = 200  # one second of load before each loss
LATE_S = 2.0


class Database(Records):
    """A database with two clusters of one shard each."""

    def __init__(self, place: Path, dsn: str) -> None:
        self.admin_dsn = dsn
        self._place = place
        sql(dsn, WANT_ONE)

    def serves(self, cluster_id: str) -> bool:
        shards = asyncio.run(holders_of(self.admin_dsn, SHARD))
        return {it.cluster_id for it in shards if it.part is not None} == {cluster_id}

    def is_back(self, after_term: int) -> bool:
        """Return whether the lead has moved after a given term, and only the shard of Ray's cluster has slots."""
        return self.term() > after_term and self.serves(RAY)

    @contextmanager
    def host(self, cluster_id: str, *, beside: str = "") -> Iterator[HostProcess]:
        """Run the host of a cluster's keepers during a block; the test may kill the host before the end."""
        order = LocalOrder(
            cluster_id=cluster_id,
            environment={"SHARDCLOCK_DSN": as_role(self.admin_dsn, "shard")},
            is_embedded=False,
            metrics_socket=str(self._place / "metrics.sock"),
            app="",
            beside=beside,
        )
        with (self._place / f"said-by-{cluster_id}").open("ab") as logs, closing(local_host(logs=logs)) as process:
            process.send(order.to_json())
            yield process
            assert process.stop(within_s=20.0)


def test_after_fifty_switches_under_load_each_timer_fires_once_and_never_early(place: Path, dsn: str) -> None:
    database = Database(place, dsn)
    with database.host(STAND_BY, beside=RAY) as stand_by:
        until(partial(database.serves, STAND_BY), "the stand-by to serve")
        for number in range(1, SWITCHES // 2 + 1):
            before = database.term()
            with database.host(RAY) as ray:
                stand_by.send(found(LOCAL_NODE))
                until(partial(database.is_back, before), "the other cluster to serve")
                database.schedule_many(TIMERS, every_s=0.005)
                ray.kill()
                stand_by.send(LOST)
                until(partial(database.serves, STAND_BY), "the stand-by to serve")
                database.until_fired(number * TIMERS)

    fired, timers, earliest_s = database.verdict()
    assert fired == timers == SWITCHES // 2 * TIMERS
    assert earliest_s >= 0
    assert database.worst_lag_s() < LATE_S
