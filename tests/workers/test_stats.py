"""A worker reports its deliveries' outcomes for each target, and limits the number of reported targets."""

from __future__ import annotations

from datetime import datetime, timedelta

from shardclock_server.cluster.families import REPORTED
from shardclock_server.metrics.family import OTHER, TARGETS_MAX
from shardclock_server.metrics.report import BYTES_MAX, Histogram, decode, encode
from shardclock_server.sql.deliveries.settle import DeliveryEnding, Settlement
from shardclock_server.workers.families import DURATION_EDGES_S
from shardclock_server.workers.stats import WorkerGauges, WorkerStats, report_of
from tests.support.exporting import value_of
from tests.support.handlers import NOON, delivery

HANDLER = "order.expired"


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def histogram_of(stats: WorkerStats, name: str, kind: str = "handler") -> Histogram:
    report = report_of("a", stats, WorkerGauges(leased=0, breakers_open=0))
    return next(it for it in report.histograms if (it.name, it.labels) == (name, (kind,)))


def test_outcomes_are_reported_by_target() -> None:
    stats = WorkerStats([HANDLER, "cart.left"])
    sent = [
        Settlement(delivery(1), DeliveryEnding.DELIVERED),
        Settlement(delivery(2), None, fails=True),
        Settlement(delivery(3), None, fails=True),
        Settlement(delivery(4, target="cart.left"), DeliveryEnding.DEAD, fails=True),
        Settlement(delivery(5, target="webhook:shop"), DeliveryEnding.DELIVERED),
        Settlement(delivery(6), DeliveryEnding.DELIVERED),
    ]

    stats.count_settled(sent, {it.delivery.claim for it in sent[5:]})

    report = report_of("a", stats, WorkerGauges(leased=0, breakers_open=0))
    assert value_of(report, "deliveries_settled", "handler", HANDLER, "delivered") == 1
    assert value_of(report, "deliveries_settled", "handler", HANDLER, "retried") == 2
    assert value_of(report, "deliveries_settled", "handler", "cart.left", "dead") == 1
    assert value_of(report, "deliveries_settled", "webhook", OTHER, "delivered") == 1
    assert value_of(report, "deliveries_lost") == 1, "the sixth is another worker's now"
    assert stats.counts() | {"delivered": 2, "retried": 2, "dead": 1} == stats.counts()


def test_missing_outcomes_are_reported_as_0() -> None:
    report = report_of("a", WorkerStats([HANDLER]), WorkerGauges(leased=0, breakers_open=0))

    for outcome in ("delivered", "discarded", "dead", "retried", "given_back"):
        assert value_of(report, "deliveries_settled", "handler", HANDLER, outcome) == 0
    assert value_of(report, "handler_start_failures", HANDLER) == 0


def test_handlers_beyond_the_limit_are_reported_together() -> None:
    handlers = [f"h{number:03}" for number in range(TARGETS_MAX + 2)]
    stats = WorkerStats(reversed(handlers))
    for target in handlers:
        stats.count_failed_start(target)

    report = report_of("a", stats, WorkerGauges(leased=0, breakers_open=0))

    assert value_of(report, "handler_start_failures", handlers[TARGETS_MAX - 1]) == 1
    assert value_of(report, "handler_start_failures", OTHER) == 2


def test_a_handler_with_the_name_other_is_reported_once() -> None:
    report = report_of("a", WorkerStats([OTHER]), WorkerGauges(leased=0, breakers_open=0))
    series = [(sample.name, sample.labels) for sample in report.samples]

    assert len(set(series)) == len(series)


def test_the_lag_of_a_first_attempt_counts_from_the_firing() -> None:
    stats = WorkerStats([HANDLER])
    called = [
        delivery(1, due_date=later(-86_400), fired_at=NOON),
        delivery(2, next_attempt_at=later(1.96)),
        delivery(3, failed_attempts=1),
        delivery(4, fired_at=later(3)),
    ]

    stats.count_called("order.expired", called, now=later(2))

    lags = histogram_of(stats, "delivery_lag_seconds")
    edges = dict(zip([*DURATION_EDGES_S, float("inf")], lags.counts, strict=True))
    expected = {
        5: 1,  # the first delivery was called two seconds after its firing
        0.05: 1,  # the second delivery was redriven, and is due now
        0.001: 1,  # the fourth delivery has a lag of 0, because the worker's clock may be a little behind Postgres's
    }
    assert {edge: count for edge, count in edges.items() if count} == expected
    assert round(lags.sum, 6) == 2.04
    assert sum(histogram_of(stats, "delivery_lag_seconds", "webhook").counts) == 0


def test_the_largest_report_of_a_worker_fits_into_a_datagram() -> None:
    handlers = [f"{number:03}" + "x" * 197 for number in range(TARGETS_MAX)]
    stats = WorkerStats(handlers)
    for key, target in enumerate(handlers):
        stats.count_failed_start(target)
        stats.count_settled([Settlement(delivery(key, target=target), DeliveryEnding.DELIVERED)] * 1_000, ())
    stats.outcomes.update(dict.fromkeys(stats.outcomes, 2**50))
    stats.failed_starts.update(dict.fromkeys(stats.failed_starts, 2**50))

    datagram = encode(report_of("f" * 16, stats, WorkerGauges(leased=2**50, breakers_open=0)))

    assert len(datagram) < BYTES_MAX
    assert len(decode(datagram, REPORTED).samples) > 5 * TARGETS_MAX
