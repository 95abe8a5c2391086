"""Metrics that have one series each, and the name under which Prometheus reads each metric."""

from prometheus_client.core import Metric

from shardclock_server.metrics.family import Family
from shardclock_server.metrics.page import metrics_of
from shardclock_server.metrics.report import Histogram, Sample


def metric_of(family: Family) -> Metric:
    """Return the metric that a page shows after a source has reported one of its series."""
    labels = tuple(min(label.values) for label in family.labels)
    samples, histograms = [Sample(family.name, labels, 1.0)], list[Histogram]()
    if family.kind == "histogram":
        samples, histograms = [], [Histogram(family.name, labels, (1,) * (len(family.edges) + 1), 1.0)]
    (metric,) = metrics_of(samples, histograms, {family.name: family})
    return metric


def shown_name(family: Family) -> str:
    """Return the metric's name on a page; for a histogram, the name before `_bucket`, `_count` and `_sum`."""
    metric = metric_of(family)
    return str(metric.name if family.kind == "histogram" else metric.samples[0].name)
