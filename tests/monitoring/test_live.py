"""Test monitoring on a live cluster: each panel shows data, and each fault sets off its alert.

The rules are the real rules, but all waits, windows and ages are divided by FASTER (tests/support/rules.py). So an
alert that takes five minutes takes ten seconds in this test. Thresholds that are not times stay the same.
"""

from __future__ import annotations

import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from k8s.monitoring.dashboards import DASHBOARDS
from k8s.monitoring.dashboards.spec import Query
from shardclock_server.embedded.server import EmbeddedPostgres
from tests.support import ROOT
from tests.support.cluster_faults import log_without_days, reported_clock, right_missing, transaction_held
from tests.support.factories import BOUND_S
from tests.support.monitored import WatchedCluster
from tests.support.processes import frozen, kill
from tests.support.program import until
from tests.support.prometheus import Prometheus, promtool
from tests.support.rules import alerts, of_group, rule_file, sped_up
from tests.support.server_faults import connections_taken, replica_lost

FASTER = 30
KILLS = 4
MINUTE_S = 60 / FASTER
TAKEOVERS = "job_role:shardclock_takeovers:sum"
MISSING = {"ShardclockShardsMissing", "ShardclockWorkersMissing", "ShardclockEnginesMissing"}
FLAPPING = {
    "shard": "ShardclockShardFlapping",
    "worker": "ShardclockWorkersFlapping",
    "engine": "ShardclockEnginesFlapping",
}
# Restarts of processes have growing pauses in real seconds.
LONGER = dict.fromkeys(("ShardclockHandlerDoesNotStart", *FLAPPING.values()), 2)
ALERT_S = 60.0  # each other alert fires within this time after its fault
AN_HOUR_S = 60 * MINUTE_S + ALERT_S
# Grafana's values of the variables. The exporter reads the tables every 5 s, so rates need a longer interval.
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
VARIABLES = {"job": "shardclock", "__rate_interval": "15s"}

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive, pytest.mark.timed]


@pytest.fixture(scope="module")
def watched() -> Iterator[WatchedCluster]:
    """Run a cluster under load, scraped by a Prometheus with the rules sped up."""
    watched = WatchedCluster(sped_up(rule_file(), FASTER, longer=LONGER))
    try:
        yield watched
    finally:
        watched.close()


@pytest.fixture(scope="module")
def prometheus(watched: WatchedCluster) -> Prometheus:
    assert watched.prometheus is not None
    return watched.prometheus


def test_no_alert_fires_on_a_healthy_cluster(watched: WatchedCluster, prometheus: Prometheus) -> None:
    until(lambda: prometheus.value("sum(shardclock_timers_fired_total)"), "timers to fire")
    assert prometheus.alerts() == {}
    assert {rule["health"] for group in prometheus.ask("rules")["groups"] for rule in group["rules"]} == {"ok"}


def test_promtool_accepts_the_served_metrics(watched: WatchedCluster) -> None:
    with urllib.request.urlopen(f"{watched.address}/metrics", timeout=BOUND_S) as answer:
        text = answer.read().decode()
    ours = "".join(line for line in text.splitlines(keepends=True) if "shardclock_" in line)
    assert promtool("check", "metrics", stdin=ours) == ""


def test_every_query_of_every_panel_returns_data(watched: WatchedCluster, prometheus: Prometheus) -> None:
    watched.command("scale", "--min", 2, "--max", 4, "--target", 5000)
    watched.sql("insert into shardclock.consumers (group_name) values ('for a moment')")
    watched.command("deploy", ROOT / "examples" / "order.bpmn")
    watched.kill_a_shard()
    until(watched.up.serving, "two shards again")
    until(watched.up.advancing, "two engines")
    queries = [
        (f"{board.title}: {panel.title}", query, panel.instant)
        for board in DASHBOARDS
        for panel in board.panels
        for query in panel.queries
    ]
    assert len(queries) > 70

    def silent() -> list[str]:
        return [
            f"{where}: {query.expr}" for where, query, instant in queries if not _series(prometheus, query, instant)
        ]

    def shows_each() -> bool:
        # For a rate, an instance must start after the engine's first report.
        watched.command("processes", "start", "order")
        return not silent()

    with suppress(AssertionError):
        until(shows_each, "data for each panel", within_s=40)
    assert silent() == []
    watched.sql("delete from shardclock.consumers")
    until(lambda: "ShardclockConsumerBehind" not in prometheus.alerts(), "the group to be forgotten", within_s=ALERT_S)


def _series(prometheus: Prometheus, query: Query, instant: bool) -> list[dict[str, Any]]:
    """Query as a panel does: over the last minute, or at the present."""
    expression = VARIABLE.sub(lambda found: VARIABLES[found[1]], query.expr)
    return prometheus.query(expression) if instant else prometheus.query_range(expression, over_s=60)


class Seen:
    """Wait for alerts, and record the fired alerts with their annotations."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self.said: dict[str, dict[str, str]] = {}

    def are_quiet(self, *names: str) -> None:
        """Check that these alerts do not fire before their fault."""
        assert set(names) & self._prometheus.alerts().keys() == set()

    def until(self, name: str, cause: str, *, within_s: float = ALERT_S) -> None:
        begun = time.monotonic()

        def fires() -> bool:
            firing = self._prometheus.alerts()
            self.said |= {found: alert["annotations"] for found, alert in firing.items()}
            return name in firing

        until(fires, f"{name} to be set off by {cause}", within_s=within_s)
        print(f"{name}: {cause} ({time.monotonic() - begun:.0f} s)")  # noqa: T201 - the figure, under -s


def test_each_fault_sets_off_its_alert(watched: WatchedCluster, prometheus: Prometheus) -> None:
    seen = Seen(prometheus)
    _jobs(watched, seen)
    _slow_faults(watched, seen)
    _processes(watched, seen)
    _connections_near_limit(watched, seen)
    _on_hold(watched, seen)
    _flapping(watched, prometheus, seen)
    seen.until("ShardclockIncidentsOpen", "incidents without a resolution", within_s=AN_HOUR_S)
    _everything_dies(watched, seen)
    _no_postgres_and_no_exporter(watched, seen)
    # Only the cases of tests/monitoring/test_rules.py test the alerts of gateways: a live test takes minutes more.
    assert alerts().keys() - of_group("shardclock.gateways") <= seen.said.keys()
    for name, said in seen.said.items():
        assert said["runbook_url"] == alerts()[name]["annotations"]["runbook_url"]
        assert not any(odd in text for odd in ("<error", "<no value>", "{{", "NaN") for text in said.values()), said


def _slow_faults(watched: WatchedCluster, seen: Seen) -> None:
    """Cause all faults with a slow alert at the same time."""
    assert watched.load is not None
    seen.are_quiet(
        "ShardclockLogPartitionMissing", "ShardclockOldLogWriter", "ShardclockConsumerBehind",
        "ShardclockOldSnapshot", "ShardclockBloat", "ShardclockEndpointFails",
        "ShardclockClockOffset", "ShardclockTimerRefused", "ShardclockForecastOverCapacity",
        "ShardclockLagBudgetBurnFast", "ShardclockLagBudgetBurnSlow",
        "ShardclockReplicaBehind", "ShardclockWalFilling",
        "ShardclockDeadLetters", "ShardclockDeliveriesFail",
        "ShardclockHandlerDoesNotStart", "ShardclockDeliveriesBehind",
    )  # fmt: skip
    with ExitStack() as faults:
        # This fault is caused first, without other faults. Three starts must fail within the scaled ten minutes, but
        # during the other faults each start takes long.
        _schedule(watched, "fails", 350, every_s=0.2)
        seen.until("ShardclockDeadLetters", "a handler that raises at its only attempt")
        faults.enter_context(_no_more_starts(watched))
        seen.until("ShardclockHandlerDoesNotStart", "an app that can't be imported any more")
        faults.enter_context(replica_lost(watched))
        faults.enter_context(log_without_days(watched))
        faults.enter_context(
            transaction_held(watched, "select shardclock.cancel_timer(shardclock.schedule_timer(delay => 'P1D'))")
        )
        faults.enter_context(transaction_held(watched, "select 1", "repeatable_read"))
        watched.sql("insert into shardclock.timers (due_date) select '2040-01-01' from generate_series(1, 150000)")
        watched.sql("delete from shardclock.timers where due_date = '2040-01-01'")
        faults.enter_context(reported_clock(watched, offset_s=3.0))
        watched.sql(
            "insert into shardclock.timers (due_date, name, schedule, anchor, anchor_occurrence, repetitions)"
            " values (now(), 'nonsense', 'every now and then', now(), null, -1)"
        )
        watched.sql("insert into shardclock.consumers (group_name) values ('without members')")
        watched.command("endpoints", "add", "nowhere", "--url", "https://nowhere.invalid/")
        _schedule(watched, "webhook:nowhere", 12)
        watched.command("scale", "--min", 2, "--max", 2, "--target", 10)
        watched.load.late_per_s = 100
        seen.until("ShardclockTimerRefused", "a schedule that no shard can read")
        seen.until("ShardclockForecastOverCapacity", "more timers due than two shards are reckoned to fire")
        # The workers keep the deliveries that they had claimed before the first failed start, and claim no more.
        _schedule(watched, "never.starts", 20)
        seen.until("ShardclockClockOffset", "a node that reports a clock 3 s ahead")
        seen.until("ShardclockLagBudgetBurnFast", "timers that come too late")
        seen.until("ShardclockDeliveriesFail", "a handler that raises each time")
        seen.until("ShardclockReplicaBehind", "a slot of a replica that is gone")
        seen.until("ShardclockWalFilling", "the log that is kept for it")
        seen.until("ShardclockDeliveriesBehind", "deliveries that wait for a handler that doesn't start")
        seen.until("ShardclockConsumerBehind", "a group without a member")
        seen.until("ShardclockOldLogWriter", "a transaction that has written to the log and stays open")
        seen.until("ShardclockOldSnapshot", "a snapshot that stays open")
        seen.until("ShardclockBloat", "dead rows that vacuum may not clear")
        seen.until("ShardclockLogPartitionMissing", "a log without days ahead")
        seen.until("ShardclockLagBudgetBurnSlow", "timers that come too late, for longer")
        seen.until("ShardclockEndpointFails", "an endpoint with a host without address")
    watched.load.late_per_s = 0
    watched.command("scale", 2)


def _jobs(watched: WatchedCluster, seen: Seen) -> None:
    seen.are_quiet("ShardclockJobNotSucceeding", "ShardclockJobCrashes", "ShardclockJobStartsLate")
    (watched.place / "refresh-fails").touch()
    for job in ("crashes", "finds_no_room"):
        watched.command("jobs", "run", job)
    seen.until("ShardclockJobCrashes", "a job with a process that ends each time")
    watched.command("jobs", "disable", "crashes")
    seen.until("ShardclockJobStartsLate", "a job for which no node has room")
    watched.command("jobs", "cancel", "finds_no_room")
    seen.until("ShardclockJobNotSucceeding", "a job that fails each time")
    (watched.place / "refresh-fails").unlink()


def _processes(watched: WatchedCluster, seen: Seen) -> None:
    """Cause an incident, a given-up signal, and missing rights of engines and exporters."""
    seen.are_quiet(
        "ShardclockIncidents", "ShardclockIncidentsOpen", "ShardclockSignalsGivenUp", "ShardclockNothingAdvances",
        "ShardclockSignalsWait", "ShardclockReadingsMissing",
    )  # fmt: skip
    watched.raise_incident()
    seen.until("ShardclockIncidents", "a call of a process that is not deployed")
    watched.give_up_a_signal()
    seen.until("ShardclockSignalsGivenUp", "a state that no engine can read")
    with right_missing(watched, "select", "records_aside"):
        seen.until("ShardclockReadingsMissing", "an exporter that may not read all tables")
    with right_missing(watched, "insert", "instance_steps"):
        watched.command("processes", "start", "stuck")
        seen.until("ShardclockNothingAdvances", "engines that may not write")
        seen.until("ShardclockSignalsWait", "the signals that wait for them")


def _schedule(watched: WatchedCluster, target: str, timers: int, *, every_s: float = 0.0) -> None:
    text = (
        "select shardclock.schedule_timer(due_date => now() + i * $3::double precision * interval '1 s', target => $2)"
        " from generate_series(1, $1::integer) i"
    )
    watched.sql(text, timers, target, every_s)


def _connections_near_limit(watched: WatchedCluster, seen: Seen) -> None:
    seen.are_quiet("ShardclockConnectionsNearLimit")
    with connections_taken(watched):
        seen.until("ShardclockConnectionsNearLimit", "a client that takes nearly all connections")


def _on_hold(watched: WatchedCluster, seen: Seen) -> None:
    """Assign the database to another installation for a while."""
    seen.are_quiet("ShardclockOnHold")
    watched.sql("update shardclock.identity set name = 'another'")
    seen.until("ShardclockOnHold", "a database of another installation")
    watched.sql("update shardclock.identity set name = null")
    until(watched.up.serving, "two shards again")


def _flapping(watched: WatchedCluster, prometheus: Prometheus, seen: Seen) -> None:
    """Kill one keeper of each role in each of several minutes, on the test's faster scale."""
    seen.are_quiet(*FLAPPING.values())
    kills = {"shard": watched.kill_a_shard, "worker": watched.kill_a_worker, "engine": watched.kill_an_engine}
    for role, alert in FLAPPING.items():
        counted = f'{TAKEOVERS}{{role="{role}"}}'
        recent = f"{counted} - {counted} offset {MINUTE_S * 1000:.0f}ms"
        _kill_again_and_again(watched, prometheus, kills[role], recent)
        seen.until(alert, f"a {role} that is killed again and again")
    until(watched.up.working, "two workers again")
    until(watched.up.advancing, "two engines again")
    # The pauses before restarts grow with each kill, so a keeper may be missing long enough for an alert.
    until(lambda: not MISSING & prometheus.alerts().keys(), "nobody to be told missing", within_s=ALERT_S)


def _kill_again_and_again(
    watched: WatchedCluster, prometheus: Prometheus, kill_one: Callable[[], None], recent: str
) -> None:
    for _ in range(KILLS):
        kill_one()
        until(lambda: prometheus.value(recent), "a takeover to be seen", within_s=BOUND_S)
        until(watched.up.serving, "two shards again")
        until(lambda: prometheus.value(recent) == 0, "a minute without one", within_s=BOUND_S)


def _everything_dies(watched: WatchedCluster, seen: Seen) -> None:
    """Kill all shards, engines and workers without a coordinator to replace them, then stop the ramp."""
    seen.are_quiet(
        "ShardclockSlotsUnassigned", "ShardclockShardsMissing", "ShardclockNoLeader", "ShardclockNoShardAlive",
        "ShardclockNothingFires", "ShardclockOverdueWhileShardsLive", "ShardclockNoWorkerAlive",
        "ShardclockWorkersMissing", "ShardclockEnginesMissing", "ShardclockNoEngineAlive",
    )  # fmt: skip
    # The host process is frozen too, because it would start a new coordinator.
    with frozen(watched.up.processes("CoordinatorActor") + watched.up.processes("shardclock_server.cluster.host")):
        shards = watched.up.processes("ShardActor")
        shards[0].kill()
        seen.until("ShardclockSlotsUnassigned", "a dead shard with unassigned slots")
        seen.until("ShardclockShardsMissing", "a dead shard without a replacement")
        seen.until("ShardclockNoLeader", "a coordinator that is frozen")
        for role in ("Engine", "Worker"):
            one, *others = watched.up.processes(f"{role}Actor")
            one.kill()
            seen.until(f"Shardclock{role}sMissing", "a dead one without a replacement")
            kill(others)
            seen.until(f"ShardclockNo{role}Alive", "all dead")
        kill(shards[1:])
        seen.until("ShardclockNoShardAlive", "all shards dead")
        seen.until("ShardclockNothingFires", "due timers without a living shard")
        watched.command("ramp", 0)
    seen.until("ShardclockOverdueWhileShardsLive", "shards that may not fire the rest")
    watched.command("ramp", 150_000)


def _no_postgres_and_no_exporter(watched: WatchedCluster, seen: Seen) -> None:
    seen.are_quiet("ShardclockStoreDown", "ShardclockExporterAbsent")
    watched.postgres.close()
    seen.until("ShardclockStoreDown", "a Postgres that is stopped")
    watched.postgres = EmbeddedPostgres.start(watched.place / "named")
    watched.up.process.send_signal(signal.SIGTERM)
    seen.until("ShardclockExporterAbsent", "an exporter that is gone")


@contextmanager
def _no_more_starts(watched: WatchedCluster) -> Iterator[None]:
    """Prevent the start of a handler's process while timers call the handler."""
    mark = watched.place / "no-more-starts"
    mark.touch()
    _schedule(watched, "never.starts", 20)
    yield
    mark.unlink()
