"""Run the pods of the chart's mode `local`, and move the lead between the pods as a rolling update does."""

from __future__ import annotations

import asyncio
from contextlib import closing

from shardclock_server.sql.cluster.holders import SHARD
from tests.support.charts import CLUSTER, render
from tests.support.cli_asserts import DONE
from tests.support.factories import holders_of, sql
from tests.support.kuberay import ContainerMachine, RunningContainer
from tests.support.manifests import Pod, pod
from tests.support.pods import COME_UP_S, FIRED, until_ready
from tests.support.program import until


def start(machine: ContainerMachine, keepers: Pod, name: str) -> RunningContainer:
    socket = machine.place / name / "exporter.sock"
    socket.parent.mkdir()
    given = {"SHARDCLOCK_CLUSTER_ID": name, "SHARDCLOCK_METRICS_SOCKET": str(socket)}
    running = machine.start(keepers, "keepers", **given)
    until_ready(running, keepers.container("keepers"))
    return running


def serves(machine: ContainerMachine, name: str) -> bool:
    """Return whether exactly this pod's shards have slots."""
    shards = [it for it in asyncio.run(holders_of(machine.dsn, SHARD)) if it.part is not None]
    return {it.cluster_id for it in shards} == {name}


def test_a_rolling_update_moves_the_lead_and_a_timer_fires(dsn: str) -> None:
    keepers = pod(render(CLUSTER, {"mode": "local"}), "keepers")
    with closing(ContainerMachine(dsn)) as machine:
        # Given a pod that fires timers, and its successor, which is ready because it stands by
        first = start(machine, keepers, "keepers-1")
        until(lambda: serves(machine, "keepers-1"), "the first pod to serve", within_s=COME_UP_S)
        start(machine, keepers, "keepers-2")

        # When the first pod is stopped
        assert first.stop() == DONE, first.said

        # Then the second pod fires
        until(lambda: serves(machine, "keepers-2"), "the second pod to serve", within_s=COME_UP_S)
        sql(dsn, "select shardclock.schedule_timer(delay => 'PT0S', name => 'after')")
        until(lambda: sql(dsn, FIRED, "after"), "the timer to fire")
