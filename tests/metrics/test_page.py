"""Test that Prometheus can read each metric, that names follow its conventions, and that each metric has few series."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import product

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

import shardclock_server.engine.families
import shardclock_server.shards.families
import shardclock_server.workers.families
from shardclock_server.cluster.families import REPORTED
from shardclock_server.gateway.families import OPERATION, TENANT
from shardclock_server.metrics.families import OF_EXPORTER, READ
from shardclock_server.metrics.family import JOB_NAME, LOOP, PREFIX, SHARD, TARGET_NAME, Family, by_name
from shardclock_server.metrics.page import metrics_of, of_exporter
from shardclock_server.metrics.report import Histogram, Sample
from tests.support import ROOT
from tests.support.metric_names import shown_name

DECLARED = {**REPORTED, **READ}
FAMILIES = [*REPORTED.values(), *READ.values()]
LABELS = {label for family in FAMILIES for label in family.labels}
PLAIN = [family for family in FAMILIES if family.kind != "histogram"]
HISTOGRAMS = [family for family in FAMILIES if family.kind == "histogram"]
UNITS = ("_seconds", "_bytes", "_per_second")
# Prometheus's convention requires base units such as seconds, so the following units must not occur in names.
NO_UNITS = re.compile(r"milli|micro|minutes|hours|_ms$|_s$|_mb$|percent")


class Given(Collector):
    """Serve the given metrics."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def labels_of(family: Family) -> tuple[str, ...]:
    return tuple(min(label.values) for label in family.labels)


def page() -> CollectorRegistry:
    samples = [Sample(family.name, labels_of(family), 2.5) for family in PLAIN]
    histograms = [Histogram(f.name, labels_of(f), (1, *[0] * (len(f.edges) - 1), 2), 7.5) for f in HISTOGRAMS]
    registry = CollectorRegistry()
    registry.register(
        Given([*metrics_of(samples, histograms, DECLARED), *of_exporter(sources=1, reports=2, refused=3)])
    )
    return registry


def text() -> str:
    return generate_latest(page()).decode()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_family_is_on_the_page_once_with_its_help_and_kind(family: Family) -> None:
    found = [metric for metric in text_string_to_metric_families(text()) if metric.name == PREFIX + family.name]

    assert [(metric.type, metric.documentation) for metric in found] == [(family.kind, family.help)]
    for sample in found[0].samples:
        assert {name: value for name, value in sample.labels.items() if name != "le"} == dict(
            zip(family.label_names, labels_of(family), strict=True)
        )


def test_the_page_has_the_metrics_of_the_exporter() -> None:
    for name, number in (("exporter_sources", 1), ("exporter_reports_total", 2), ("exporter_reports_refused_total", 3)):
        assert f"\n{PREFIX}{name} {number}.0\n" in text()
    assert re.search(rf'\n{PREFIX}build_info{{version="[^"]+"}} 1\.0\n', text())


def test_the_page_is_valid_openmetrics() -> None:
    written = exposition.generate_latest(page()).decode()  # type: ignore[no-untyped-call]
    names = {metric.name for metric in read_openmetrics(written)}  # type: ignore[no-untyped-call]

    assert {PREFIX + family.name for family in FAMILIES} <= names


@pytest.mark.parametrize("family", HISTOGRAMS, ids=lambda family: family.name)
def test_the_buckets_of_a_histogram_are_cumulative_up_to_infinity(family: Family) -> None:
    (metric,) = metrics_of(
        [], [Histogram(family.name, labels_of(family), (1, *[0] * (len(family.edges) - 1), 2), 7.5)], DECLARED
    )

    buckets = [sample for sample in metric.samples if sample.name.endswith("_bucket")]
    assert [float(sample.labels["le"]) for sample in buckets] == [*family.edges, math.inf]
    assert [sample.value for sample in buckets] == [1.0] * len(family.edges) + [3.0]
    assert {s.name.rpartition("_")[2]: s.value for s in metric.samples if s not in buckets} == {"count": 3, "sum": 7.5}


def test_samples_of_one_name_form_one_metric() -> None:
    samples = [Sample("timers_fired", (shard,), 1) for shard in ("1", "0")]
    samples.insert(1, Sample("timers_held", ("1",), 1))

    assert sorted(len(metric.samples) for metric in metrics_of(samples, [], DECLARED)) == [1, 2]


# Names


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_name_keeps_to_prometheus_conventions(family: Family) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", family.name)
    assert not NO_UNITS.search(family.name)
    assert not family.name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
    assert shown_name(family).endswith("_total") == (family.kind == "counter")
    assert family.help.endswith(".")
    assert "\n" not in family.help
    if any(unit in family.name for unit in UNITS):
        assert family.name.endswith(UNITS)


def test_each_name_of_a_metric_is_unique() -> None:
    names = [family.name for family in FAMILIES] + list(OF_EXPORTER)

    assert len(set(names)) == len(names)
    with pytest.raises(AssertionError, match="two families are called"):
        by_name(*FAMILIES, FAMILIES[0])


@pytest.mark.parametrize("family", HISTOGRAMS, ids=lambda family: family.name)
def test_a_histogram_has_ascending_edges_in_a_unit(family: Family) -> None:
    assert list(family.edges) == sorted(set(family.edges))
    assert family.name.endswith("_seconds")


def test_only_histograms_have_edges() -> None:
    assert [family.name for family in PLAIN if family.edges] == []


# Labels: their values limit the number of series, for any report.


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_label_has_a_small_fixed_set_of_values(family: Family) -> None:
    assert len(set(family.labels)) == len(family.labels)
    assert [label for label in family.labels if label.is_open] in (
        [],
        [TARGET_NAME],
        [JOB_NAME],
        [OPERATION],  # the API has a fixed number of operations
        [TENANT],  # at most 20 throttled tenants of a gateway
    ), "users name these"
    series = math.prod(len(label.values) for label in family.labels if label != SHARD)
    assert series <= 32, "the limit of series for each shard"


@pytest.mark.parametrize(
    ("files", "loops"),
    [
        (["shards/shard.py"], shardclock_server.shards.families.LOOPS),
        (
            [
                "workers/deliveries.py",
                "workers/endpoints.py",
                "workers/hand_over_receiver.py",
                "workers/runs/runner.py",
            ],
            shardclock_server.workers.families.LOOPS,
        ),
        (["engine/engine.py"], shardclock_server.engine.families.LOOPS),
    ],
    ids=["shard", "worker", "engine"],
)
def test_each_loop_of_a_keeper_is_a_value_of_its_label(files: list[str], loops: tuple[str, ...]) -> None:
    read = [(ROOT / file).read_text(encoding="utf-8") for file in ("keepers/keeper.py", *files)]
    taken = [name for text in read for name in re.findall(r"(?:Loop|until_stopped)\(\"(\w+)\"", text)]

    assert set(taken) == set(loops), "a missing right would fail without a message"
    assert set(loops) <= LOOP.values, "a label outside the list would make the exporter refuse each report"


def test_each_set_of_values_is_finite_and_each_value_is_plain() -> None:
    assert len({label.name for label in LABELS}) == len(LABELS), "one name, one set of values"
    for label in LABELS:
        assert 1 <= len(label.values) <= 841, label.name
        assert all(re.fullmatch(r"[A-Za-z0-9_]{1,24}", value) for value in label.values), label.name
        assert label.name not in ("instance", "job", "le", "quantile"), "these labels are Prometheus's own"


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.labels and SHARD not in f.labels], ids=lambda f: f.name)
def test_a_family_accepts_only_the_values_of_its_labels(family: Family) -> None:
    assert all(map(family.accepts, product(*(label.values for label in family.labels))))
    rest = labels_of(family)[1:]
    odd = "x" * 201 if family.labels[0].is_open else "x"
    for wrong in ((), ("", *rest), (odd, *rest), (*labels_of(family), "x")):
        assert not family.accepts(wrong)


@pytest.mark.parametrize(
    ("name", "accepted"),
    [("order.expired", True), ("a", True), ("x" * 200, True), ("", False), ("x" * 201, False), ("Größe", False),
     ('a"b', False), ("a\nb", False), ("a ", False)],
)  # fmt: skip
def test_the_name_of_a_target_follows_the_rule_for_handlers(name: str, accepted: bool) -> None:
    assert TARGET_NAME.accepts(name) is accepted
