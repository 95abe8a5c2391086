"""What the exporter has heard: totals, present values, and which sources live. Time is given to it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from metrics.families import REPORTED
from metrics.report import Labels, Report, Sample, Spread

SILENT_S = 10.0
SOURCES_MAX = 2_000  # more than the 840 shards there can be, twice over during an upgrade

Key = tuple[str, Labels]


@dataclass(slots=True)
class _Source:
    """One source: its last report, and the series that it stands behind since then."""

    report: Report
    heard_at_s: float
    series: frozenset[Key]


@dataclass(slots=True)
class Board:
    """Keep a total for each series, whichever sources it came from.

    A source's counters run from its start. What they gained since its last report goes to the shard that it keeps
    *now*: a holder that was shard 5 and is shard 3 adds to shard 3 from then on. A series is dropped when no living
    source stands behind it any more. One that was silent and is heard again, a frozen process say, adds what it gained
    meanwhile: what it did before was counted. One that had reported before this board began adds what it gains from
    now on: what it did before was another exporter's to count.

    units:   now_s in seconds of the monotonic clock
    """

    reports: int = 0
    _sources: dict[str, _Source] = field(default_factory=dict)
    _silent: dict[str, Report] = field(default_factory=dict)
    _counters: dict[Key, float] = field(default_factory=dict)
    _spreads: dict[Key, Spread] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the sources that live."""
        return len(self._sources)

    def hear(self, report: Report, *, now_s: float) -> None:
        """Take a report in; the last one of a source takes its series with it."""
        before = self._sources.get(report.source)
        if before is None and len(self._sources) >= SOURCES_MAX:
            return
        self.reports += 1
        unknown = report if report.number > 1 else Report(report.source)
        silent = self._silent.pop(report.source, unknown)
        self._count(report, before.report if before else silent)
        items: list[Sample | Spread] = [*report.samples, *report.spreads]
        series = frozenset(_series(report, item) for item in items)
        if report.leaving:
            self._sources.pop(report.source, None)
        else:
            self._sources[report.source] = _Source(report, now_s, series)
        if report.leaving or (before and before.series - series):
            self._drop_orphans()

    def expire(self, *, now_s: float) -> None:
        """Drop the sources that have been silent, and their series."""
        silent = [name for name, source in self._sources.items() if now_s - source.heard_at_s > SILENT_S]
        for name in silent:
            self._silent[name] = self._sources.pop(name).report
        while len(self._silent) > SOURCES_MAX:
            del self._silent[next(iter(self._silent))]
        if silent:
            self._drop_orphans()

    def samples(self) -> Iterator[Sample]:
        """List the counters' totals and the gauges' present values."""
        gauges: dict[Key, float] = {}
        for source in sorted(self._sources.values(), key=lambda source: source.heard_at_s):
            report = source.report
            gauges |= {_series(report, s): s.value for s in report.samples if not _is_counter(s)}
        for (name, labels), value in (self._counters | gauges).items():
            yield Sample(name, labels, value)

    def spreads(self) -> Iterator[Spread]:
        """List the histograms' totals."""
        yield from self._spreads.values()

    def _count(self, report: Report, before: Report) -> None:
        counted = {(s.name, s.labels): s.value for s in before.samples}
        for sample in filter(_is_counter, report.samples):
            key = _series(report, sample)
            gained = sample.value - counted.get((sample.name, sample.labels), 0.0)
            self._counters[key] = self._counters.get(key, 0.0) + max(0.0, gained)
        spread = {(s.name, s.labels): s for s in before.spreads}
        for now in report.spreads:
            key = _series(report, now)
            self._spreads[key] = _gain(key, self._spreads.get(key), now, spread.get((now.name, now.labels)))

    def _drop_orphans(self) -> None:
        named: set[Key] = set().union(*(source.series for source in self._sources.values()))
        for key in self._counters.keys() - named:
            del self._counters[key]
        for key in self._spreads.keys() - named:
            del self._spreads[key]


def _is_counter(sample: Sample) -> bool:
    return REPORTED[sample.name].kind == "counter"


def _series(report: Report, item: Sample | Spread) -> Key:
    """Name the series that a number belongs to: for most of them, the shard that its source keeps now."""
    is_of_shard = "shard" in REPORTED[item.name].labels
    return item.name, (report.shard, *item.labels) if is_of_shard else item.labels


def _gain(key: Key, total: Spread | None, now: Spread, before: Spread | None) -> Spread:
    none = (0,) * len(now.counts)
    had, was = (total.counts if total else none), (before.counts if before else none)
    counts = tuple(h + max(0, n - w) for h, n, w in zip(had, now.counts, was, strict=True))
    gained = now.sum - (before.sum if before else 0.0)
    return Spread(*key, counts, (total.sum if total else 0.0) + max(0.0, gained))
