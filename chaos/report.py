"""Write a page and a picture of a run: the promises, the faults, the lateness, and the command that repeats the run."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from itertools import accumulate
from pathlib import Path

from chaos.checker import Finding, Verdict
from chaos.fault_windows import windows_of
from chaos.history import History
from chaos.history.calls import Call
from chaos.history.changes import SIGNAL, Recorded, TimerWritten
from chaos.history.faults import Fault
from chaos.picture import draw
from chaos.run_index import RunIndex, index_run
from chaos.takeover import lags, quantile, recoveries, takeovers
from charts.units import format_value

ENDS = {"TRIGGERED": "fired", "CANCELED": "cancelled", "RESCHEDULED": "rescheduled", "SKIPPED": "skipped"}
SURE = Context(prec=2, rounding=ROUND_CEILING)  # rounds up, because an upper limit must not be too low


def report(history: History, verdict: Verdict, directory: Path, *, versions: Mapping[str, object], repeat: str) -> Path:
    """Write report.md and lag.svg into one directory; return the path of the page.

    shape:  `versions` maps a component (Postgres, Ray, Python, cores ...) to its version; `repeat` is the command that
            repeats the run
    """
    directory.mkdir(parents=True, exist_ok=True)
    run = index_run(history)
    late = lags(history, run=run)
    title = f"{verdict.status}: seed {history.seed}, {_length(history)}, {len(late):,} timers fired"
    title += f", {_count(len(history.faults), 'fault')}"
    (directory / "lag.svg").write_text(draw(history, late, title), encoding="utf-8")
    lines = [*_head(history, verdict, versions), *_body(history, run, late), *_foot(repeat)]
    page = directory / "report.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page


def sure_below(cases: int) -> str:
    """Return the upper limit for the rate of an event that did not occur in a number of cases, at 95 % confidence.

    shape:   empty if the number of cases gives no useful limit
    source:  the rule of three: (1 - p)^n = 0.05 at p = 3/n, nearly
    """
    if cases <= 3:
        return ""
    rate = SURE.divide(Decimal(3), Decimal(cases))
    return f"< {rate}" if rate >= Decimal("0.001") else f"< {rate:.1e}"


def calm(late: Sequence[tuple[float, float]], history: History) -> list[float]:
    """Return the lags of the timers that did not wait during a fault's window."""
    windows = windows_of(history.faults, history.bounds)
    begins = [window.began_s for window in windows]
    latest = list(accumulate((window.until_s for window in windows), max))
    befores = ((bisect_right(begins, fired_at), fired_at - lag_s, lag_s) for fired_at, lag_s in late)
    return [lag_s for before, due_at, lag_s in befores if before == 0 or latest[before - 1] < due_at]


def _head(history: History, verdict: Verdict, versions: Mapping[str, object]) -> Iterator[str]:
    setting = [f"seed {history.seed}", _length(history), *(f"{name} {value}" for name, value in versions.items())]
    yield from (f"# Run {history.seed}: {verdict.status}", "", " · ".join(setting), "")
    if verdict.reasons:
        yield from ("Why:", "", *(f"- {reason}" for reason in verdict.reasons), "")
    yield from ("## Promises", "", *_promises(verdict.findings), "")
    for finding in verdict.findings:
        if finding.violations:
            yield from (*_offending(finding), "")


def _body(history: History, run: RunIndex, late: Sequence[tuple[float, float]]) -> Iterator[str]:
    yield from ("## Faults", "", *_faults(history, run), "")
    yield from ("## Lag", "", *_lags(history, late), "", "![Lag over time](lag.svg)", "")
    yield from (
        "## Load",
        "",
        _timers(history),
        "",
        _deliveries(run),
        "",
        _processes(run),
        "",
        *_calls(history.calls),
        "",
    )


def _foot(repeat: str) -> Iterator[str]:
    yield from ("## Repeat it", "", "```console", f"$ {repeat}", "```")


def _promises(findings: Sequence[Finding]) -> Iterator[str]:
    rows = []
    for finding in findings:
        clean = finding.cases and not finding.violations
        held = "kept" if clean else f"**{finding.violations:,} BROKEN**" if finding.violations else "no case"
        below = sure_below(finding.cases)
        rate = f"0 of {finding.cases:,}{below and f', so {below}'}" if clean else ""
        rows.append(
            [finding.promise, finding.title, f"{finding.cases:,}", finding.violations, held, rate, finding.note]
        )
    yield from _table(["", "promise", "cases", "violations", "", "rate at 95 %", "note"], rows)
    yield ""
    yield "0 of N shows a rate below 3/N with 95 % confidence (the rule of three), as if cases were independent."


def _offending(finding: Finding) -> Iterator[str]:
    shown = f", the first {len(finding.shown)}" if len(finding.shown) < finding.violations else ""
    yield from (f"### {finding.promise} {finding.title}: {_count(finding.violations, 'violation')}{shown}", "")
    yield from (f"    {line}" for row in finding.shown for line in row.splitlines())


def _faults(history: History, run: RunIndex) -> Iterator[str]:
    if not history.faults:
        yield "Nothing was broken."
        return
    rows = []
    measures = _measures(history, run)
    for (kind, name), times in Counter((fault.kind, fault.name) for fault in history.faults).items():
        for measure, spans in measures.get((kind, name), {"": []}).items():
            bounds = sorted({bound_s for _, bound_s in spans if bound_s is not None})
            late = sum(bound_s is not None and seconds > bound_s for seconds, bound_s in spans)
            rows.append(
                [f"{kind}: {name}", times, measure, len(spans) or "", *_spread([seconds for seconds, _ in spans])]
            )
            rows[-1] += [
                ", ".join(format_value(bound_s, "s") for bound_s in bounds),
                f"**{late} LATE**" if late else "",
            ]
    yield from _table(["fault", "times", "time until", "measured", "p50", "p99", "max", "bound", ""], rows)


def _measures(history: History, run: RunIndex) -> dict[tuple[str, str], dict[str, list[tuple[float, float | None]]]]:
    """Group the measured times and their limits by kind and name of the fault, and by measure."""
    found: dict[tuple[str, str], dict[str, list[tuple[float, float | None]]]] = {}

    def add(fault: Fault, measure: str, seconds: float | None, bound_s: float | None) -> None:
        if seconds is not None:
            found.setdefault((fault.kind, fault.name), {}).setdefault(measure, []).append((seconds, bound_s))

    for takeover in takeovers(history, run=run):
        add(takeover.fault, "the shard's last timer fired", takeover.seconds, takeover.bound_s)
    for recovery in recoveries(history, run=run):
        bound_s = recovery.fault.recovers_within_s
        add(recovery.fault, "a timer fired", recovery.first_s, bound_s)
        # A timer that is due at the end of a fault may additionally be late by the normal lag.
        healed_s = None if bound_s is None else bound_s + history.bounds.normal_s
        add(recovery.fault, "no timer was late", recovery.normal_s, healed_s)
    return found


def _lags(history: History, late: Sequence[tuple[float, float]]) -> Iterator[str]:
    whole, outside = [lag_s for _, lag_s in late], calm(late, history)
    rows = [
        ["whole run", f"{len(whole):,}", *_spread(whole), ""],
        [
            "except during faults and recoveries",
            f"{len(outside):,}",
            *_spread(outside),
            format_value(history.bounds.normal_s, "s"),
        ],
    ]
    yield from _table(["", "timers fired", "p50", "p99", "max", "bound"], rows)


def _spread(seconds: Sequence[float]) -> list[str]:
    return [format_value(quantile(seconds, q), "s") if seconds else "" for q in (0.5, 0.99, 1.0)]


def _timers(history: History) -> str:
    """Count the changes of timers in the commits."""
    counts: Counter[str] = Counter()
    for commit in history.commits:
        for change in commit.changes:
            if isinstance(change, TimerWritten) and change.new:
                counts["scheduled" if change.occurrence == 1 else "next occurrences"] += 1
            elif isinstance(change, Recorded):
                counts[ENDS.get(change.intent, change.intent.lower())] += 1
    told = ["scheduled", "next occurrences", *ENDS.values()]
    told += sorted(counts.keys() - set(told))
    ends = ", ".join(f"{counts[name]:,} {name}" for name in told)
    return f"Timers: {ends}; {len(history.pending):,} pending at the end."


def _deliveries(run: RunIndex) -> str:
    """Count handlers' calls, with the delay from a firing to the first call of its delivery."""
    attempts = run.history.attempts
    first: dict[int, float] = {}
    for attempt in attempts:
        first[attempt.timer_key] = min(attempt.began_at, first.get(attempt.timer_key, attempt.began_at))
    fired_s = {
        firing.record.timer_key: firing.fired_s for firing in run.firings if firing.record.target not in ("log", SIGNAL)
    }
    again = len(attempts) - len({(it.timer_key, it.attempt) for it in attempts})
    told = (
        f"Deliveries: {len(fired_s):,}, with {_count(len(attempts), 'call')}, of which {again:,} were repeated under"
        " the same attempt"
    )
    waits = [first[key] - at_s for key, at_s in fired_s.items() if key in first]
    if not waits:
        return f"{told}."
    p50, p99, most = _spread(waits)
    return f"{told}; from firing to the first call p50 {p50}, p99 {p99}, at most {most}."


def _processes(run: RunIndex) -> str:
    """Count instances by their end, with the delay from the sending of a signal to its step."""
    seen = run.processes
    ends = Counter(instance.row.outcome or "RUNNING" for instance in seen.instances.values() if instance.rows)
    if not ends:
        return "Processes: none."
    signals = [it for it in seen.signals.values() if it.sent is not None]
    late = sum(taken.stale for instance in seen.instances.values() for taken in instance.signals())
    late += sum(len(it.spent) for it in signals)
    told = ", ".join(f"{count:,} {end.lower()}" for end, count in ends.most_common())
    waits = [run.committed_s[it.gone] - run.committed_s[it.sent] for it in signals if it.gone and it.sent is not None]
    p50, p99, most = _spread(waits) if waits else ("", "", "")
    return (
        f"Processes: {_count(ends.total(), 'instance')}, {told}; {_count(len(signals), 'signal')}, of which"
        f" {late:,} were stale; from sending to taking p50 {p50}, p99 {p99}, at most {most}."
    )


def _calls(calls: Sequence[Call]) -> Iterator[str]:
    counts: Counter[tuple[str, str]] = Counter(
        (call.verb, "no answer" if call.ended_at is None else call.outcome) for call in calls
    )
    outcomes = ["ok", "fail", "unknown", "no answer"]
    verbs = sorted({call.verb for call in calls})
    rows = [[verb, *(f"{counts[verb, outcome]:,}" for outcome in outcomes)] for verb in verbs]
    yield from _table(["calls", *outcomes], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        cells = (" ".join(str(cell).split()).replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"


def _length(history: History) -> str:
    return f"{history.ended_at - history.began_at:,.0f} s"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
