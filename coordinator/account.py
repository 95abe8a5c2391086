"""What the coordinator has done since its start, and how it is told to its node's exporter."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metrics.families import LABELS, TAKEOVER_EDGES_S
from metrics.report import Report, Sample, Spread
from sql.holders import Ended

UNREACHABLE = "ActorUnavailableError"
# Why an actor is gone, in the words of its metric; whatever isn't here is "other".
REASONS = {"ActorDiedError": "died", UNREACHABLE: "unreachable", "silent": "silent", "never started": "never_started"}


@dataclass(slots=True)
class Account:
    """Count what the coordinator did."""

    leads: bool | None = None
    started: int = 0
    released: int = 0
    suspended: int = 0
    takeovers: Counter[str] = field(default_factory=Counter)
    seconds: list[int] = field(default_factory=lambda: [0] * (len(TAKEOVER_EDGES_S) + 1))
    seconds_sum: float = 0.0

    def take_over(self, ended: Iterable[Ended], why_gone: Mapping[int, str]) -> None:
        """Take note of holders whose timers others have from now on."""
        for holder in ended:
            self.takeovers[REASONS.get(why_gone.get(holder.holder, ""), "other")] += 1
            self.released += holder.held
            self.seconds[bisect_left(TAKEOVER_EDGES_S, holder.silent_s)] += 1
            self.seconds_sum += holder.silent_s

    def report(self, source: str, *, leaving: bool = False) -> Report:
        """Put together what the coordinator says of itself."""
        reasons = sorted(LABELS["reason"] & {*REASONS.values(), "other"})
        return Report(
            source,
            samples=[
                Sample("coordinator_leads", (), bool(self.leads)),
                Sample("shards_started", (), self.started),
                Sample("shards_suspended", (), self.suspended),
                Sample("timers_released", ("died",), self.released),
                *(Sample("takeovers", (reason,), self.takeovers[reason]) for reason in reasons),
            ],
            spreads=[Spread("takeover_seconds", (), tuple(self.seconds), self.seconds_sum)],
            leaving=leaving,
        )
