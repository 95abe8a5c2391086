"""What was heard and read, as Prometheus reads it."""

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import accumulate, groupby
from operator import attrgetter

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from metrics.families import PREFIX, READ, REPORTED, Family
from metrics.report import Sample, Spread

PLAIN: dict[str, type[CounterMetricFamily | GaugeMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}
OWN = {
    "exporter_sources": ("gauge", "Shards and coordinators of this node that report."),
    "exporter_reports": ("counter", "Reports taken in."),
    "exporter_reports_refused": ("counter", "Datagrams that were no report of ours."),
}


def families_of(samples: Iterable[Sample], spreads: Iterable[Spread]) -> Iterator[Metric]:
    """Put numbers of the families there are into Prometheus's terms, each family once."""
    by_name = attrgetter("name")
    for name, plain in groupby(sorted(samples, key=by_name), key=by_name):
        yield _plain(REPORTED.get(name) or READ[name], plain)
    for name, spread in groupby(sorted(spreads, key=by_name), key=by_name):
        yield _histogram(REPORTED[name], spread)


def of_exporter(*, sources: int, reports: int, refused: int) -> Iterator[Metric]:
    """Say how the exporter itself is."""
    build = GaugeMetricFamily(f"{PREFIX}build_info", "The release that exports this.", labels=["version"])
    build.add_metric([version("shardclock")], 1)
    yield build
    for (name, (kind, help_)), value in zip(OWN.items(), (sources, reports, refused), strict=True):
        yield PLAIN[kind](PREFIX + name, help_, value=value)


def _plain(family: Family, samples: Iterable[Sample]) -> Metric:
    metric = PLAIN[family.kind](PREFIX + family.name, family.help, labels=family.labels)
    for sample in samples:
        metric.add_metric(sample.labels, sample.value)
    return metric


def _histogram(family: Family, spreads: Iterable[Spread]) -> Metric:
    metric = HistogramMetricFamily(PREFIX + family.name, family.help, labels=family.labels)
    bounds = [*(str(float(edge)) for edge in family.edges), "+Inf"]
    for spread in spreads:
        metric.add_metric(spread.labels, list(zip(bounds, accumulate(spread.counts), strict=True)), spread.sum)
    return metric
