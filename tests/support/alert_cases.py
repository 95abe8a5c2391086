"""Series for each alert, in promtool's notation, a sample every 30 s: series that must start the alert, or must not."""

from __future__ import annotations

from dataclasses import dataclass, field

# Two exporters read the same tables, and two nodes report one shard each. So an alert rule must not sum series that
# exporters read from the tables, and must sum, not maximize, the series of shards.
EXPORTERS = ("a:9840", "b:9840")
LONG = 2_600  # samples, one each 30 s: more than 21 hours
EVERY_OTHER_MINUTE = "0+0x30 1+0x5 2+0x5 3+0x5 4+0x5 5+0x60"  # a count that rises every second minute


def tables(name: str, values: str, **labels: str) -> dict[str, str]:
    more = "".join(f', {label}="{value}"' for label, value in labels.items())
    return {f'shardclock_{name}{{job="shardclock", instance="{place}"{more}}}': values for place in EXPORTERS}


def shards(name: str, *values: str, **labels: str) -> dict[str, str]:
    """Return one series, or several, for the shards 0 and 1, each on a separate node."""
    more = "".join(f', {label}="{value}"' for label, value in labels.items())
    return {
        f'shardclock_{name}{{job="shardclock", instance="{place}", shard="{shard}"{more}}}': values[shard % len(values)]
        for shard, place in enumerate(EXPORTERS)
    }


def workers(name: str, values: str, **labels: str) -> dict[str, str]:
    """Give the workers of both nodes the same series of one handler."""
    if name.startswith("deliveries_"):
        labels = {"kind": "handler", **labels}
    return tables(name, values, target_name="order.expired", **labels)


def one(name: str, values: str, **labels: str) -> dict[str, str]:
    more = "".join(f', {label}="{value}"' for label, value in labels.items())
    return {f'shardclock_{name}{{job="shardclock", instance="a:9840"{more}}}': values}


def steady(value: float, samples: int = LONG) -> str:
    """Write a series that stays at a value."""
    return f"{value:g}+0x{samples}"


def growing(by: float, samples: int = LONG) -> str:
    return f"0+{by:g}x{samples}"


def lag(fired: str, in_time: str, *, asked: str = "ahead") -> dict[str, str]:
    """Report the firings of two shards, some of them within 0.1 s."""
    labels = {"target": "log", "timer_type": "USER", "asked": asked}
    return {
        **shards("fire_lag_seconds_bucket", in_time, **labels, le="0.1"),
        **shards("fire_lag_seconds_bucket", fired, **labels, le="+Inf"),
        **shards("fire_lag_seconds_count", fired, **labels),
    }


def requests(status: str, values: str, operation: str = "create_timer") -> dict[str, str]:
    """Report the answers of both nodes' gateways to one operation."""
    return tables("requests_total", values, operation=operation, status=status)


def answered(requests: str, *, within_a_second: str, operation: str = "create_timer") -> dict[str, str]:
    """Report the gateways' answers: some within a second, all others within 5 s."""
    return {
        **tables("request_seconds_bucket", within_a_second, operation=operation, le="1.0"),
        **tables("request_seconds_bucket", requests, operation=operation, le="5.0"),
        **tables("request_seconds_bucket", requests, operation=operation, le="+Inf"),
        **tables("request_seconds_count", requests, operation=operation),
    }


def loop_lag(looks: str, *, within_a_quarter: str) -> dict[str, str]:
    """Measure the delay of the gateways' event loops: some of the measured delays are at most 0.25 s."""
    return {
        **tables("gateway_loop_lag_seconds_bucket", within_a_quarter, le="0.25"),
        **tables("gateway_loop_lag_seconds_bucket", looks, le="+Inf"),
        **tables("gateway_loop_lag_seconds_count", looks),
    }


HEALTHY: dict[str, str] = {
    **lag(growing(100), growing(99.8)),
    **shards("timers_fired_total", growing(100)),
    **shards("timers_refused_total", steady(0)),
    **shards("clock_offset_seconds", steady(0.01), steady(-0.01)),
    **shards("clock_round_trip_seconds", steady(0.001)),
    **one("takeovers_total", steady(0), role="shard", reason="died"),
    **one("takeovers_total", steady(0), role="worker", reason="died"),
    **one("takeovers_total", steady(0), role="engine", reason="died"),
    **tables("store_up", steady(1)),
    **tables("store_readings_missing", steady(0)),
    **tables("oldest_overdue_seconds", steady(0.2)),
    **tables("shards_alive", steady(2)),
    **tables("shards_wanted", steady(2)),
    **tables("holders_on_hold", steady(0)),
    **tables("operators_hold", steady(0)),
    **tables("slots_assigned", steady(840)),
    **tables("leader_alive", steady(1)),
    **tables("ray_away_seconds", steady(0)),
    **tables("workers_alive", steady(2)),
    **tables("workers_wanted", steady(2)),
    **tables("oldest_waiting_delivery_seconds", steady(0.1), target_name="order.expired"),
    **tables("endpoint_breakers_open", steady(0)),
    **workers("handler_start_failures_total", steady(0)),
    **workers("deliveries_settled_total", growing(100), outcome="delivered"),
    **workers("deliveries_settled_total", growing(2), outcome="retried"),
    **workers("deliveries_settled_total", growing(10), outcome="given_back"),
    **workers("deliveries_settled_total", steady(0), outcome="dead"),
    **tables("incidents_raised_total", steady(0)),
    **tables("engines_alive", steady(1)),
    **tables("engines_wanted", steady(1)),
    **tables("oldest_waiting_signal_seconds", steady(0.05)),
    **tables("incidents_open", steady(0)),
    **tables("instance_signals_total", growing(100), signal_fate="taken"),
    **tables("instance_signals_total", growing(1), signal_fate="stale"),
    **tables("instance_signals_total", steady(0), signal_fate="given_up"),
    **tables("job_success_overdue_seconds", steady(60), job_name="refresh"),
    **tables("job_max_runtime_seconds", steady(3_600), job_name="refresh"),
    **tables("job_consecutive_crashes", steady(0), job_name="refresh"),
    **tables("job_waiting_seconds", steady(0.2), job_name="refresh"),
    **tables("gateways", steady(1)),
    **requests("2xx", growing(100)),
    **requests("4xx", growing(5)),
    **requests("5xx", growing(0.6)),
    **requests("503", growing(0.6)),
    **answered(growing(100), within_a_second=growing(99.8)),
    **tables("requests_throttled_total", growing(1), tenant="acme"),
    **tables("keys_expiring", steady(0)),
    **tables("waiters", steady(400)),
    **tables("waiters_max", steady(20_000)),
    **tables("waiters_behind_seconds", steady(0.06)),
    **tables("log_streams", steady(12)),
    **tables("log_streams_max", steady(200)),
    **tables("task_waits", steady(5)),
    **tables("task_waits_max", steady(500)),
    **loop_lag(growing(300), within_a_quarter=growing(299.9)),
    **tables("forecast_peak_timers_per_second", steady(500)),
    **tables("capacity_timers_per_second", steady(2000)),
    **tables("log_partitions_ahead", steady(8)),
    **tables("oldest_log_writer_seconds", steady(0.5)),
    **tables("consumer_lag_seconds", steady(0.1), group="billing"),
    **tables("oldest_snapshot_seconds", steady(2)),
    **tables("table_rows", steady(1_000_000), table="timers"),
    **tables("table_dead_rows", steady(50_000), table="timers"),
    **tables("connections", steady(40)),
    **tables("connections_max", steady(297)),
    **tables("wal_kept_bytes", steady(12e9)),
    **tables("wal_expected_bytes", steady(16e9)),
    **tables("replica_lag_bytes", steady(2e6)),
}


# One attempt in five minutes: the alert about failing attempts needs more attempts.
FAILED_WEBHOOKS = tables(
    "deliveries_settled_total", growing(0.1), kind="webhook", target_name="other", outcome="retried"
)


@dataclass(frozen=True)
class Case:
    """A state of the cluster: its differences from a healthy cluster, and the expected number of each firing alert."""

    title: str
    about: str
    differs: dict[str, str] = field(default_factory=dict)
    fires: tuple[str, ...] = ()
    at: str = "30m"
    without: str = ""  # healthy series with this text in their names are left out

    @property
    def series(self) -> dict[str, str]:
        kept = {name: values for name, values in HEALTHY.items() if not self.without or self.without not in name}
        return kept | self.differs

    @property
    def firing(self) -> dict[str, int]:
        return {name: self.fires.count(name) for name in self.fires}


NOT_FIRING = shards("timers_fired_total", steady(1000))

CASES = [
    Case("a third of the timers late for an hour", "ShardclockLagBudgetBurnFast",
         lag(growing(90), growing(60)), ("ShardclockLagBudgetBurnFast", "ShardclockLagBudgetBurnSlow"), at="1h"),
    Case("a tenth late for four hours, the second half of the page's rule", "ShardclockLagBudgetBurnFast",
         lag(growing(100), growing(90)), ("ShardclockLagBudgetBurnFast", "ShardclockLagBudgetBurnSlow"), at="3h"),
    Case("a fifth late for the last of five hours, the first half of the page's rule", "ShardclockLagBudgetBurnFast",
         lag(growing(100), f"0+99.8x480 {99.8 * 480 + 80:g}+80x200"),
         ("ShardclockLagBudgetBurnFast", "ShardclockLagBudgetBurnSlow"), at="5h"),
    Case("a tenth late for the last of five hours", "ShardclockLagBudgetBurnFast",
         lag(growing(100), f"0+99.8x480 {99.8 * 480 + 90:g}+90x200"), ("ShardclockLagBudgetBurnSlow",), at="5h"),
    Case("a backfill of a hundred times the due timers, for hours", "ShardclockLagBudgetBurnFast",
         lag(growing(10_000), growing(0), asked="late"), at="5h"),
    Case("half of them late since a quarter of an hour", "ShardclockLagBudgetBurnFast",
         lag(growing(100), f"0+100x180 {100 * 180 + 50}+50x100"), at="106m"),
    Case("half of them late, twelve timers", "ShardclockLagBudgetBurnFast",
         lag("0+0x30 1+1x11 12+0x40", "0+0x30 0.5+0.5x11 6+0x40"),
         ("ShardclockLagBudgetBurnFast", "ShardclockLagBudgetBurnSlow"), at="40m"),
    Case("half of them late, but only nine timers", "ShardclockLagBudgetBurnFast",
         lag("0+0x30 1+1x8 9+0x40", "0+0x30 0.5+0.5x8 4.5+0x40"), at="40m"),
    Case("a third late for an hour, and that an hour ago", "ShardclockLagBudgetBurnFast",
         lag(growing(90), f"0+60x120 {60 * 121}+90x240"), ("ShardclockLagBudgetBurnSlow",), at="2h30m"),
    Case("2 % late for hours", "ShardclockLagBudgetBurnSlow",
         lag(growing(100), growing(98)), ("ShardclockLagBudgetBurnSlow",), at="3h"),
    Case("0.8 % late for hours, within the objective", "ShardclockLagBudgetBurnSlow",
         lag(growing(1000), growing(992)), at="3h"),
    Case("a fifth late for ten minutes", "ShardclockLagBudgetBurnSlow",
         lag(growing(100), f"0+100x200 {100 * 200 + 80}+80x100"), at="110m"),
    Case("a tenth late for one hour in 21", "ShardclockLagBudgetBurnSlow",
         lag(growing(100), f"0+100x2400 {100 * 2400 + 90}+90x200"), at="21h"),
    Case("a tenth late for three hours, and that ten hours ago", "ShardclockLagBudgetBurnSlow",
         lag(growing(100), f"0+90x360 {90 * 360 + 100}+100x2000"), at="13h"),
    Case("all late, two timers an hour", "ShardclockLagBudgetBurnSlow",
         lag("0+0x59 1+0x119 2+0x119 3+0x200", steady(0)), at="3h"),

    Case("overdue by minutes while shards live", "ShardclockOverdueWhileShardsLive",
         tables("oldest_overdue_seconds", steady(60)), ("ShardclockOverdueWhileShardsLive",)),
    Case("overdue by 20 s at times", "ShardclockOverdueWhileShardsLive",
         tables("oldest_overdue_seconds", steady(20))),
    Case("overdue for one minute", "ShardclockOverdueWhileShardsLive",
         tables("oldest_overdue_seconds", "0+0x57 60 90 60+0x100")),
    Case("shards that live and fire none of the due timers", "ShardclockNothingFires",
         tables("oldest_overdue_seconds", steady(25)) | NOT_FIRING, ("ShardclockNothingFires",)),
    Case("everything dead but the table's reader, with timers due", "ShardclockNothingFires",
         tables("oldest_overdue_seconds", growing(30)) | tables("shards_alive", steady(0))
         | tables("capacity_timers_per_second", steady(0)),
         ("ShardclockNothingFires", "ShardclockNoShardAlive"), without="shard="),
    Case("nothing due and nothing fired", "ShardclockNothingFires",
         tables("oldest_overdue_seconds", steady(0)) | NOT_FIRING),
    Case("no firing, and timers due for 8 s", "ShardclockNothingFires",
         tables("oldest_overdue_seconds", steady(8)) | NOT_FIRING),
    Case("no firing, and timers due for a moment, after a quiet hour", "ShardclockNothingFires",
         tables("oldest_overdue_seconds", "0+0x59 15+0x100") | NOT_FIRING),
    Case("a backlog that is being fired", "ShardclockNothingFires",
         tables("oldest_overdue_seconds", steady(29))),
    Case("a timer refused a quarter of an hour ago", "ShardclockTimerRefused",
         shards("timers_refused_total", "0+0x30 1+0x100"), ("ShardclockTimerRefused",)),
    Case("a timer refused an hour ago", "ShardclockTimerRefused",
         shards("timers_refused_total", "0+0x30 1+0x300"), at="80m"),

    Case("a cluster of another installation beside firing ones", "ShardclockOnHold",
         tables("holders_on_hold", steady(2)), ("ShardclockOnHold",)),
    Case("a copy without a firing shard", "ShardclockOnHold",
         tables("holders_on_hold", steady(2)) | tables("shards_alive", steady(0)) | tables("leader_alive", steady(0))
         | tables("capacity_timers_per_second", steady(0)) | tables("oldest_overdue_seconds", growing(30)) | NOT_FIRING,
         ("ShardclockOnHold", "ShardclockNoShardAlive", "ShardclockNoLeader", "ShardclockNothingFires")),
    Case("an operator's hold, during which everything waits", "ShardclockOnHold",
         tables("holders_on_hold", steady(5)) | tables("operators_hold", steady(1)) | NOT_FIRING
         | tables("oldest_overdue_seconds", growing(30)) | tables("oldest_waiting_signal_seconds", growing(30))
         | tables("instance_signals_total", steady(0), signal_fate="taken")
         | tables("instance_signals_total", steady(0), signal_fate="stale")
         | tables("oldest_waiting_delivery_seconds", growing(30), target_name="order.expired")
         | tables("job_waiting_seconds", growing(30), job_name="refresh")
         | tables("job_success_overdue_seconds", growing(30), job_name="refresh"),
         ("ShardclockOnHold",)),
    Case("shards on hold for half a minute", "ShardclockOnHold",
         tables("holders_on_hold", "0+0x59 2 0+0x100")),
    Case("no shard alive", "ShardclockNoShardAlive",
         tables("shards_alive", steady(0)) | tables("capacity_timers_per_second", steady(0)),
         ("ShardclockNoShardAlive",)),
    Case("no shard alive for half a minute", "ShardclockNoShardAlive",
         tables("shards_alive", "2+0x59 0 2+0x100")),
    Case("one of two shards missing", "ShardclockShardsMissing",
         tables("shards_alive", steady(1)), ("ShardclockShardsMissing",)),
    Case("new shards that are about to start", "ShardclockShardsMissing",
         tables("shards_wanted", "2+0x55 8+0x100")),
    Case("a shard lost every other minute", "ShardclockShardFlapping",
         one("takeovers_total", EVERY_OTHER_MINUTE, role="shard", reason="died"),
         ("ShardclockShardFlapping",)),
    Case("a shard lost in three of 15 minutes", "ShardclockShardFlapping",
         one("takeovers_total", "0+0x35 1+0x5 2+0x5 3+0x60", role="shard", reason="died")),
    Case("a node lost with ten shards", "ShardclockShardFlapping",
         one("takeovers_total", "0+0x50 10+0x100", role="shard", reason="unreachable")),
    Case("a worker lost every other minute, and no shard", "ShardclockShardFlapping",
         one("takeovers_total", EVERY_OTHER_MINUTE, role="worker", reason="died"),
         ("ShardclockWorkersFlapping",)),
    Case("slots without a shard", "ShardclockSlotsUnassigned",
         tables("slots_assigned", steady(420)), ("ShardclockSlotsUnassigned",)),
    Case("slots without a shard during a takeover", "ShardclockSlotsUnassigned",
         tables("slots_assigned", "840+0x59 420 840+0x100")),
    Case("no slot assigned because no shard is alive", "ShardclockSlotsUnassigned",
         tables("slots_assigned", steady(0)) | tables("shards_alive", steady(0))
         | tables("capacity_timers_per_second", steady(0)), ("ShardclockNoShardAlive",)),
    Case("no coordinator", "ShardclockNoLeader",
         tables("leader_alive", steady(0)), ("ShardclockNoLeader",)),
    Case("a coordinator that was replaced", "ShardclockNoLeader",
         tables("leader_alive", "1+0x55 0+0x5 1+0x100")),
    Case("a Ray that never gets its keepers", "ShardclockRayAway",
         tables("ray_away_seconds", growing(30)), ("ShardclockRayAway",)),
    Case("a Ray that takes four minutes to start", "ShardclockRayAway",
         tables("ray_away_seconds", "0+30x8 0+0x100")),
    Case("one node's clock a second behind", "ShardclockClockOffset",
         shards("clock_offset_seconds", steady(0.01), steady(-1)), ("ShardclockClockOffset",)),
    Case("a clock that was off for a moment", "ShardclockClockOffset",
         shards("clock_offset_seconds", "0+0x57 2+0x5 0+0x100")),
    Case("two shards on a node with a clock that is 0.3 s ahead", "ShardclockClockOffset",
         shards("clock_offset_seconds", steady(0.3)) | one("clock_offset_seconds", steady(0.3), shard="2")
         | one("clock_round_trip_seconds", steady(0.001), shard="2")),
    Case("every node's clock ahead, so Postgres's behind", "ShardclockClockOffset",
         shards("clock_offset_seconds", steady(3)), ("ShardclockClockOffset", "ShardclockClockOffset")),
    Case("an offset that slow answers explain", "ShardclockClockOffset",
         shards("clock_offset_seconds", steady(0.8)) | shards("clock_round_trip_seconds", steady(0.7))),
    Case("a peak above the capacity of two shards, without a policy", "ShardclockForecastOverCapacity",
         tables("forecast_peak_timers_per_second", steady(2500)), ("ShardclockForecastOverCapacity",)),
    Case("a peak that is spread at once", "ShardclockForecastOverCapacity",
         tables("forecast_peak_timers_per_second", "500+0x59 2500 500+0x100")),
    Case("a peak that the policy's most can do", "ShardclockForecastOverCapacity",
         tables("forecast_peak_timers_per_second", steady(2500)) | tables("shards_max", steady(4))),
    Case("a peak above the policy's most", "ShardclockForecastOverCapacity",
         tables("forecast_peak_timers_per_second", steady(4500)) | tables("shards_max", steady(4)),
         ("ShardclockForecastOverCapacity",)),
    Case("a peak that the shards wanted can do while one is missing", "ShardclockForecastOverCapacity",
         tables("forecast_peak_timers_per_second", steady(1500)) | tables("capacity_timers_per_second", steady(1000))
         | tables("shards_alive", steady(1)), ("ShardclockShardsMissing",)),

    Case("targets, and no worker", "ShardclockNoWorkerAlive",
         tables("workers_alive", steady(0)), ("ShardclockNoWorkerAlive",)),
    Case("no worker where there is no target", "ShardclockNoWorkerAlive",
         tables("workers_alive", steady(0)) | tables("workers_wanted", steady(0))),
    Case("no worker for half a minute", "ShardclockNoWorkerAlive",
         tables("workers_alive", "2+0x59 0 2+0x100")),
    Case("one of two workers missing", "ShardclockWorkersMissing",
         tables("workers_alive", steady(1)), ("ShardclockWorkersMissing",)),
    Case("new workers that are about to start", "ShardclockWorkersMissing",
         tables("workers_wanted", "2+0x55 8+0x100")),
    Case("one worker left where there is no target any more", "ShardclockWorkersMissing",
         tables("workers_alive", steady(1)) | tables("workers_wanted", steady(0))),
    Case("a worker lost every other minute", "ShardclockWorkersFlapping",
         one("takeovers_total", EVERY_OTHER_MINUTE, role="worker", reason="died"),
         ("ShardclockWorkersFlapping",)),
    Case("a worker lost in three of 15 minutes", "ShardclockWorkersFlapping",
         one("takeovers_total", "0+0x35 1+0x5 2+0x5 3+0x60", role="worker", reason="died")),
    Case("a shard lost every other minute, and no worker", "ShardclockWorkersFlapping",
         one("takeovers_total", EVERY_OTHER_MINUTE, role="shard", reason="died"),
         ("ShardclockShardFlapping",)),
    Case("a handler with a process that fails to start again and again", "ShardclockHandlerDoesNotStart",
         workers("handler_start_failures_total", "0+0x50 0+1x10"), ("ShardclockHandlerDoesNotStart",)),
    Case("a process that failed to start once on each node", "ShardclockHandlerDoesNotStart",
         workers("handler_start_failures_total", "0+0x50 1+0x100")),
    Case("a handler that did not start half an hour ago", "ShardclockHandlerDoesNotStart",
         workers("handler_start_failures_total", "0+0x20 0+1x10 10+0x200"), at="50m"),
    Case("deliveries that have been due for seven minutes", "ShardclockDeliveriesBehind",
         tables("oldest_waiting_delivery_seconds", steady(420), target_name="order.expired"),
         ("ShardclockDeliveriesBehind",)),
    Case("two of three targets behind", "ShardclockDeliveriesBehind",
         tables("oldest_waiting_delivery_seconds", growing(30), target_name="cart.left")
         | tables("oldest_waiting_delivery_seconds", growing(30), target_name="other"),
         ("ShardclockDeliveriesBehind", "ShardclockDeliveriesBehind")),
    Case("a backlog that is worked off after a restart of eight minutes", "ShardclockDeliveriesBehind",
         tables("oldest_waiting_delivery_seconds", "0+0x40 0+30x16 300 100 0+0x100", target_name="order.expired")),
    Case("deliveries that have been due for four minutes", "ShardclockDeliveriesBehind",
         tables("oldest_waiting_delivery_seconds", steady(240), target_name="order.expired")),
    Case("two of three attempts fail", "ShardclockDeliveriesFail",
         workers("deliveries_settled_total", growing(200), outcome="retried"), ("ShardclockDeliveriesFail",)),
    Case("a third of the attempts fail", "ShardclockDeliveriesFail",
         workers("deliveries_settled_total", growing(50), outcome="retried")),
    Case("all attempts fail, for two minutes", "ShardclockDeliveriesFail",
         workers("deliveries_settled_total", f"{growing(100, 55)} 5500+0x100", outcome="delivered")
         | workers("deliveries_settled_total", "0+0x55 0+2000x50", outcome="retried")),
    Case("all of eight attempts fail", "ShardclockDeliveriesFail",
         workers("deliveries_settled_total", steady(0), outcome="delivered")
         | workers("deliveries_settled_total", "0+0x42 1 2 3 4+0x100", outcome="retried")),
    Case("a target that is not called", "ShardclockDeliveriesFail",
         workers("deliveries_settled_total", steady(0), outcome="delivered")
         | workers("deliveries_settled_total", steady(7), outcome="retried")),
    Case("attempts that a drained worker gives back", "ShardclockDeliveriesFail",
         workers("deliveries_settled_total", growing(5000), outcome="given_back")),
    Case("a delivery given up a quarter of an hour ago", "ShardclockDeadLetters",
         workers("deliveries_settled_total", "0+0x30 1+0x100", outcome="dead"), ("ShardclockDeadLetters",)),
    Case("a delivery given up an hour ago", "ShardclockDeadLetters",
         workers("deliveries_settled_total", "0+0x30 1+0x300", outcome="dead"), at="80m"),
    Case("deliveries given up one after another", "ShardclockDeadLetters",
         workers("deliveries_settled_total", growing(200), outcome="dead"),
         ("ShardclockDeadLetters", "ShardclockDeliveriesFail")),
    Case("an endpoint that one node's workers have only probed for an hour", "ShardclockEndpointFails",
         one("endpoint_breakers_open", "0+0x20 1+0x200") | FAILED_WEBHOOKS, ("ShardclockEndpointFails",), at="70m"),
    Case("an endpoint that was back after 25 minutes", "ShardclockEndpointFails",
         tables("endpoint_breakers_open", "0+0x20 1+0x49 0+0x200") | FAILED_WEBHOOKS, at="70m"),
    Case("an endpoint that failed last two hours ago, and to which nothing is sent", "ShardclockEndpointFails",
         one("endpoint_breakers_open", "0+0x20 1+0x400"), at="130m"),

    Case("a job with a success overdue by two hours, with runs of an hour at most", "ShardclockJobNotSucceeding",
         tables("job_success_overdue_seconds", steady(7_200), job_name="refresh"), ("ShardclockJobNotSucceeding",)),
    Case("a run that takes as long as it may, and its attempts", "ShardclockJobNotSucceeding",
         tables("job_success_overdue_seconds", steady(3_600 + 840), job_name="refresh")),
    Case("a short job that fails, beside one that takes hours", "ShardclockJobNotSucceeding",
         tables("job_success_overdue_seconds", steady(1_000), job_name="mail")
         | tables("job_max_runtime_seconds", steady(60), job_name="mail")
         | tables("job_success_overdue_seconds", steady(7_200), job_name="report")
         | tables("job_max_runtime_seconds", steady(20_000), job_name="report"), ("ShardclockJobNotSucceeding",)),
    Case("a job that is enabled after a month, and then succeeds", "ShardclockJobNotSucceeding",
         tables("job_success_overdue_seconds", "0+0x53 2600000+0x6 0+0x100", job_name="refresh")),
    Case("a job with a process that dies each time", "ShardclockJobCrashes",
         tables("job_consecutive_crashes", "0+0x30 1+0x5 2+0x5 3+0x100", job_name="refresh"),
         ("ShardclockJobCrashes",)),
    Case("two of three jobs that crash", "ShardclockJobCrashes",
         tables("job_consecutive_crashes", steady(4), job_name="mail")
         | tables("job_consecutive_crashes", steady(9), job_name="other"),
         ("ShardclockJobCrashes", "ShardclockJobCrashes")),
    Case("a job that crashed twice with its node", "ShardclockJobCrashes",
         tables("job_consecutive_crashes", "0+0x30 1+0x5 2+0x100", job_name="refresh")),
    Case("a start that has been due for seven minutes", "ShardclockJobStartsLate",
         tables("job_waiting_seconds", steady(420), job_name="refresh"), ("ShardclockJobStartsLate",)),
    Case("a start that waits for four minutes for a place", "ShardclockJobStartsLate",
         tables("job_waiting_seconds", steady(240), job_name="refresh")),
    Case("starts that are made up for after a restart of eight minutes", "ShardclockJobStartsLate",
         tables("job_waiting_seconds", "0+0x40 0+30x16 300 100 0+0x100", job_name="refresh")),

    Case("Postgres away", "ShardclockStoreDown",
         tables("store_up", "1+0x50 0+0x100"), ("ShardclockStoreDown",)),
    Case("Postgres away for one of two exporters", "ShardclockStoreDown",
         {'shardclock_store_up{job="shardclock", instance="b:9840"}': steady(0)}),
    Case("Postgres that fails over", "ShardclockStoreDown",
         tables("store_up", "1+0x59 0 1+0x100")),
    Case("no exporter ever", "ShardclockExporterAbsent",
         fires=("ShardclockExporterAbsent",), without="shardclock_"),
    Case("exporters gone since ten minutes", "ShardclockExporterAbsent",
         tables("store_up", "1+0x40 stale"), ("ShardclockExporterAbsent",)),
    Case("another installation's exporter gone", "ShardclockExporterAbsent",
         {'shardclock_store_up{job="other", instance="c:9840"}': "1+0x40 stale"}, ("ShardclockExporterAbsent",)),
    Case("an exporter that is replaced", "ShardclockExporterAbsent",
         tables("store_up", "1+0x40 stale _x10 1+0x100"), at="25m"),
    Case("one of two exporters gone", "ShardclockExporterAbsent",
         {'shardclock_store_up{job="shardclock", instance="b:9840"}': "1+0x40 stale"}),
    Case("a right that one of two exporters lacks", "ShardclockReadingsMissing",
         one("store_readings_missing", steady(1)), ("ShardclockReadingsMissing",)),
    Case("a reading that fails while a table is locked for eight minutes", "ShardclockReadingsMissing",
         tables("store_readings_missing", "0+0x42 1+0x15 0+0x100")),
    Case("two days of the log left", "ShardclockLogPartitionMissing",
         tables("log_partitions_ahead", steady(2)), ("ShardclockLogPartitionMissing",)),
    Case("today's day of the log missing", "ShardclockLogPartitionMissing",
         tables("log_partitions_ahead", steady(0)), ("ShardclockLogPartitionMissing",)),
    Case("partitions that are made anew", "ShardclockLogPartitionMissing",
         tables("log_partitions_ahead", "8+0x40 1+0x21 8+0x100")),
    Case("the hour before the next day is made", "ShardclockLogPartitionMissing",
         tables("log_partitions_ahead", steady(7))),
    Case("write transactions of seven minutes", "ShardclockOldLogWriter",
         tables("oldest_log_writer_seconds", steady(420)), ("ShardclockOldLogWriter",)),
    Case("a write transaction that ends after five minutes", "ShardclockOldLogWriter",
         tables("oldest_log_writer_seconds", "0+0x49 15+30x10 0+0x100")),
    Case("a write transaction of four minutes", "ShardclockOldLogWriter",
         tables("oldest_log_writer_seconds", steady(240))),
    Case("a group that is seven minutes behind", "ShardclockConsumerBehind",
         tables("consumer_lag_seconds", steady(420), group="billing"), ("ShardclockConsumerBehind",)),
    Case("two of three groups behind", "ShardclockConsumerBehind",
         tables("consumer_lag_seconds", growing(30), group="billing")
         | tables("consumer_lag_seconds", growing(30), group="mail")
         | tables("consumer_lag_seconds", steady(1), group="audit"),
         ("ShardclockConsumerBehind", "ShardclockConsumerBehind")),
    Case("a group that catches up after a restart of eight minutes", "ShardclockConsumerBehind",
         tables("consumer_lag_seconds", "0+0x40 0+30x16 300 100 0+0x100", group="billing")),
    Case("a group that is four minutes behind", "ShardclockConsumerBehind",
         tables("consumer_lag_seconds", steady(240), group="billing")),
    Case("a snapshot of half an hour", "ShardclockOldSnapshot",
         tables("oldest_snapshot_seconds", growing(30)), ("ShardclockOldSnapshot",)),
    Case("a report that took eleven minutes", "ShardclockOldSnapshot",
         tables("oldest_snapshot_seconds", "0+0x37 0+30x22 0+0x100")),
    Case("a snapshot of seven minutes", "ShardclockOldSnapshot",
         tables("oldest_snapshot_seconds", steady(420))),
    Case("more dead rows than live rows", "ShardclockBloat",
         tables("table_dead_rows", steady(250_000), table="timers")
         | tables("table_rows", steady(200_000), table="timers"), ("ShardclockBloat",)),
    Case("more dead rows than live rows in a table of processes", "ShardclockBloat",
         tables("table_dead_rows", steady(250_000), table="instances")
         | tables("table_rows", steady(200_000), table="instances"), ("ShardclockBloat",)),
    Case("more dead rows than live rows for eight minutes", "ShardclockBloat",
         tables("table_dead_rows", "0+0x43 3000000+0x100", table="timers")),
    Case("dead rows that vacuum clears each minute", "ShardclockBloat",
         tables("table_dead_rows", "3000000 0 " * 60, table="timers")),
    Case("a small table with many dead rows", "ShardclockBloat",
         tables("table_rows", steady(2), table="holders") | tables("table_dead_rows", steady(90_000), table="holders")),

    Case("280 of 297 connections taken", "ShardclockConnectionsNearLimit",
         tables("connections", steady(280)), ("ShardclockConnectionsNearLimit",)),
    Case("all shards of both colours that connect at once", "ShardclockConnectionsNearLimit",
         tables("connections", "40+0x57 290+0x2 60+0x100")),
    Case("two thirds of the connections taken", "ShardclockConnectionsNearLimit",
         tables("connections", steady(200))),
    Case("a log without an archive", "ShardclockWalFilling",
         tables("wal_kept_bytes", "12e9+1e9x60"), ("ShardclockWalFilling",)),
    Case("a log that a bulk load made grow for three minutes", "ShardclockWalFilling",
         tables("wal_kept_bytes", "12e9+0x50 26e9+0x6 16e9+0x100")),
    Case("a log as large as checkpoints let stand", "ShardclockWalFilling",
         tables("wal_kept_bytes", steady(17e9))),
    Case("a log that the role may not look at", "ShardclockWalFilling", without="wal_kept_bytes"),
    Case("a replica that is gone", "ShardclockReplicaBehind",
         tables("replica_lag_bytes", "2e6+0x20 1e8+1e8x100"), ("ShardclockReplicaBehind",)),
    Case("a replica that was restarted", "ShardclockReplicaBehind",
         tables("replica_lag_bytes", "2e6+0x50 3e9+0x6 2e6+0x100")),
    Case("a Postgres without replicas", "ShardclockReplicaBehind", without="replica_lag_bytes"),
]  # fmt: skip
