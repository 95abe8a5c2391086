"""Convert reports and tables to Prometheus's metrics."""

from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby
from operator import attrgetter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from shardclock_server.metrics.families import OF_EXPORTER, RELEASE
from shardclock_server.metrics.family import PREFIX, Families, Family
from shardclock_server.metrics.report import Histogram, Sample

SIMPLE_METRICS: dict[str, type[CounterMetricFamily | GaugeMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}


def metrics_of(samples: Iterable[Sample], histograms: Iterable[Histogram], families: Families) -> Iterator[Metric]:
    """Convert samples and histograms to one metric of Prometheus for each family."""
    by_name = attrgetter("name")
    for name, plain in groupby(sorted(samples, key=by_name), key=by_name):
        yield _plain(families[name], plain)
    for name, histogram in groupby(sorted(histograms, key=by_name), key=by_name):
        yield _metric_of_histogram(families[name], histogram)


def of_exporter(*, sources: int, reports: int, refused: int) -> Iterator[Metric]:
    """Return the exporter's metrics about itself."""
    samples = [
        Sample("build_info", (RELEASE,), 1),
        Sample("exporter_sources", (), sources),
        Sample("exporter_reports", (), reports),
        Sample("exporter_reports_refused", (), refused),
    ]
    return metrics_of(samples, (), OF_EXPORTER)


def _plain(family: Family, samples: Iterable[Sample]) -> Metric:
    metric = SIMPLE_METRICS[family.kind](PREFIX + family.name, family.help, labels=family.label_names)
    for sample in samples:
        metric.add_metric(sample.labels, sample.value)
    return metric


def _metric_of_histogram(family: Family, histograms: Iterable[Histogram]) -> Metric:
    metric = HistogramMetricFamily(PREFIX + family.name, family.help, labels=family.label_names)
    bounds = [*(str(float(edge)) for edge in family.edges), "+Inf"]
    for histogram in histograms:
        metric.add_metric(histogram.labels, list(zip(bounds, accumulate(histogram.counts), strict=True)), histogram.sum)
    return metric
