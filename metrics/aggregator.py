"""Compute totals and present values from the reports of all sources. The caller passes the time."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from shardclock_server.metrics.family import OTHER, SHARD, TARGET_NAME, TARGETS_MAX, Families
from shardclock_server.metrics.report import Histogram, Labels, MetricsReport, Sample

SOURCE_EXPIRES_S = 10.0
SOURCES_MAX = 2_000  # more than twice the limit of 840 shards: during an upgrade, two clusters run
NAMES_MAX = 2 * TARGETS_MAX  # twice the limit of one app: the two clusters may run two apps

Key = tuple[str, Labels]


@dataclass(slots=True)
class _Source:
    """A source's last report, and the series that the report contains."""

    report: MetricsReport
    heard_at_s: float
    series: frozenset[Key]


@dataclass(slots=True)
class Aggregator:
    """Store a total over all sources for each series.

    A source counts from its own start. The increase since a source's last report is added to the shard that the source
    serves *now*. For example, if a holder has moved from shard 5 to shard 3, the increase is added to shard 3. A series
    is removed when no active source reports it. If a source reports again after a pause, for example a frozen process,
    the increase since its last report is added. If a source reported to another exporter before, only the increase
    after its first report to this exporter is added.

    units:   now_s in seconds of the monotonic clock
    """

    families: Families
    reports: int = 0
    _sources: dict[str, _Source] = field(default_factory=dict)
    _silent: dict[str, MetricsReport] = field(default_factory=dict)
    _counters: dict[Key, float] = field(default_factory=dict)
    _histograms: dict[Key, Histogram] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        """Count the active sources."""
        return len(self._sources)

    def add(self, report: MetricsReport, *, now_s: float) -> None:
        """Add a report. A source's final report removes its series, unless another source also reports the series."""
        before = self._sources.get(report.source)
        if before is None and len(self._sources) >= SOURCES_MAX:
            return
        self.reports += 1
        unknown = report if report.number > 1 else MetricsReport(report.source)
        silent = self._silent.pop(report.source, unknown)
        self._count(report, before.report if before else silent)
        items: list[Sample | Histogram] = [*report.samples, *report.histograms]
        series = frozenset(self._series(report, item) for item in items)
        if report.leaving:
            self._sources.pop(report.source, None)
        else:
            self._sources[report.source] = _Source(report, now_s, series)
        if report.leaving or (before and before.series - series):
            self._drop_orphans()

    def expire(self, *, now_s: float) -> None:
        """Remove sources without recent reports, and their series."""
        silent = [name for name, source in self._sources.items() if now_s - source.heard_at_s > SOURCE_EXPIRES_S]
        for name in silent:
            self._silent[name] = self._sources.pop(name).report
        while len(self._silent) > SOURCES_MAX:
            del self._silent[next(iter(self._silent))]
        if silent:
            self._drop_orphans()

    def samples(self) -> Iterator[Sample]:
        """List the totals of counters and the present values of gauges."""
        gauges: dict[Key, float] = {}
        for source in sorted(self._sources.values(), key=lambda source: source.heard_at_s):
            for sample in source.report.samples:
                if not self._is_counter(sample):
                    key = self._series(source.report, sample)
                    others = gauges.get(key, 0.0) if self.families[sample.name].summed else 0.0
                    gauges[key] = sample.value + others
        for (name, labels), value in (self._counters | gauges).items():
            yield Sample(name, labels, value)

    def histograms(self) -> Iterator[Histogram]:
        """List the totals of histograms."""
        yield from self._histograms.values()

    def _count(self, report: MetricsReport, before: MetricsReport) -> None:
        counted = {(s.name, s.labels): s.value for s in before.samples}
        for sample in filter(self._is_counter, report.samples):
            key = self._series(report, sample)
            gained = sample.value - counted.get((sample.name, sample.labels), 0.0)
            self._counters[key] = self._counters.get(key, 0.0) + max(0.0, gained)
        histogram = {(s.name, s.labels): s for s in before.histograms}
        for now in report.histograms:
            key = self._series(report, now)
            self._histograms[key] = _gain(key, self._histograms.get(key), now, histogram.get((now.name, now.labels)))

    def _drop_orphans(self) -> None:
        named: set[Key] = set().union(*(source.series for source in self._sources.values()))
        for key in self._counters.keys() - named:
            del self._counters[key]
        for key in self._histograms.keys() - named:
            del self._histograms[key]
        self._names &= {value for _, labels in named for value in labels}

    def _is_counter(self, sample: Sample) -> bool:
        return self.families[sample.name].kind == "counter"

    def _series(self, report: MetricsReport, item: Sample | Histogram) -> Key:
        """Return the series of a sample; the label `shard` is the shard that the source serves now."""
        labels = self.families[item.name].labels
        values = (report.shard, *item.labels) if SHARD in labels else item.labels
        if TARGET_NAME not in labels:
            return item.name, values
        limited = (
            self._limited(value) if label == TARGET_NAME else value for label, value in zip(labels, values, strict=True)
        )
        return item.name, tuple(limited)

    def _limited(self, name: str) -> str:
        """Return the label value for a target: its name, or `other` if the sources report too many names."""
        if name == OTHER or name in self._names:
            return name
        if len(self._names) >= NAMES_MAX:
            return OTHER
        self._names.add(name)
        return name


def _gain(key: Key, total: Histogram | None, now: Histogram, before: Histogram | None) -> Histogram:
    none = (0,) * len(now.counts)
    had, was = (total.counts if total else none), (before.counts if before else none)
    counts = tuple(h + max(0, n - w) for h, n, w in zip(had, now.counts, was, strict=True))
    gained = now.sum - (before.sum if before else 0.0)
    return Histogram(*key, counts, (total.sum if total else 0.0) + max(0.0, gained))
