"""Check the deliveries of a run with the recorded rows and calls, without I/O."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from shardclock.log import LogRecord
from shardclock_server.demo.calls import Call
from shardclock_server.demo.example import expected_end
from shardclock_server.sql.deliveries.settle import DeliveryEnding

ENDS = frozenset(DeliveryEnding)  # the intents of records that end a delivery
DYING_S = 1.0  # the last calls of a killed worker may begin up to this long after the kill


@dataclass(frozen=True, slots=True)
class DeliveryVerdict:
    """The outcome of every delivery. All numbers count deliveries, except `double`, which counts superfluous ends.

    `retried` counts deliveries that needed more than one attempt. `called_again` and `repeated` count deliveries with
    two calls in the same attempt: in `called_again` the kill of a worker is the reason (None: no worker was killed),
    and in `repeated` there is no such reason.
    """

    promised: int
    delivered: int
    discarded: int
    dead: int
    retried: int
    called_again: int | None
    repeated: int
    lost: int
    double: int
    unfired: int
    wrong_end: int
    wrong_attempt: int
    uncalled: int

    @property
    def faults(self) -> dict[str, int]:
        """Count the faults of each kind."""
        return {
            "lost": self.lost,
            "double": self.double,
            "without a firing": self.unfired,
            "with a wrong end": self.wrong_end,
            "at a wrong attempt": self.wrong_attempt,
            "not called": self.uncalled,
        }

    @property
    def holds(self) -> bool:
        """Return whether each delivery had its expected end; False if there are no deliveries."""
        return self.delivered > 0 and not any(self.faults.values())

    def lines(self) -> list[tuple[str, object]]:
        """List the numbers with their labels, for the output."""
        again = "no worker was killed"
        if self.called_again is not None:
            again = f"{self.called_again:,}, because the killed worker had not recorded how their calls ended"
        if self.repeated:
            again += f"; {self.repeated:,} for another reason"
        return [
            ("delivered", f"{self.delivered:,} of {self.promised:,} promised, {self.retried:,} by a retry"),
            ("dead letters", f"{self.dead:,} (their handler fails at each attempt)"),
            ("called again", again),
            ("deliveries", ", ".join(f"{count:,} {fault}" for fault, count in self.faults.items())),
        ]


def judge_deliveries(
    promised: int, records: Sequence[LogRecord], calls: Sequence[Call], killed_s: float | None
) -> DeliveryVerdict:
    """Compare the ends and the calls of deliveries with the expectations in the payloads of their firings.

    shape:   `promised` counts the promised firings with a target; `records` is the complete log since the
             scheduling, in order; `calls` are in order
    units: `killed_s` is the moment when a worker was killed, by the machine's monotonic clock; None: no worker was
           killed
    """
    fired = {it.timer_key: it for it in records if it.intent == "TRIGGERED" and it.target != "log"}
    every_end = [it for it in records if it.intent in ENDS]
    ends = {it.timer_key: it for it in reversed(every_end)}  # the first end of each delivery
    expected = {key: expected_end(fired[key].payload) for key in ends.keys() & fired.keys()}
    kinds = Counter(end.intent for end in ends.values())
    as_expected = [key for key, end in expected.items() if ends[key].intent == end.intent]
    again, repeated = _called_again(calls, killed_s)
    return DeliveryVerdict(
        promised=promised,
        delivered=kinds[DeliveryEnding.DELIVERED],
        discarded=kinds[DeliveryEnding.DISCARDED],
        dead=kinds[DeliveryEnding.DEAD],
        retried=sum(end.intent == DeliveryEnding.DELIVERED and _attempt_of(end) > 1 for end in ends.values()),
        called_again=None if killed_s is None else again,
        repeated=repeated,
        lost=max(promised, len(fired)) - len(expected),
        double=len(every_end) - len(ends),
        unfired=len(_unfired(fired, ends, calls)),
        wrong_end=len(expected) - len(as_expected),
        wrong_attempt=sum(_attempt_of(ends[key]) != expected[key].attempt for key in as_expected),
        uncalled=len(_uncalled(ends.values(), calls)),
    )


def _attempt_of(end: LogRecord) -> int:
    """Return the number of a delivery's last attempt; 0 if the delivery ended without an attempt."""
    return int((end.detail or {}).get("attempt", 0))


def _unfired(fired: Mapping[int, LogRecord], ends: Mapping[int, LogRecord], calls: Sequence[Call]) -> set[int]:
    """Find the deliveries that ended or were called without a firing, or ended before the firing."""
    begun = ends.keys() | {call.timer_key for call in calls}
    early = {key for key in ends.keys() & fired.keys() if ends[key].position < fired[key].position}
    return (begun - fired.keys()) | early


def _uncalled(ends: Collection[LogRecord], calls: Sequence[Call]) -> set[int]:
    """Find the deliveries with an attempt but without a recorded call."""
    called = {(call.timer_key, call.attempt) for call in calls}
    return {
        end.timer_key
        for end in ends
        if any((end.timer_key, attempt) not in called for attempt in range(1, _attempt_of(end) + 1))
    }


def _called_again(calls: Sequence[Call], killed_s: float | None) -> tuple[int, int]:
    """Count the deliveries with two calls in the same attempt: first if a kill is the reason, then all others."""
    moments: dict[tuple[int, int], list[float]] = defaultdict(list)
    for call in calls:
        moments[call.timer_key, call.attempt].append(call.began_s)
    by_kill: set[int] = set()
    otherwise: set[int] = set()
    for (timer_key, _), began in moments.items():
        for first_s, next_s in pairwise(sorted(began)):
            was_killed = killed_s is not None and first_s < killed_s + DYING_S and next_s > killed_s
            (by_kill if was_killed else otherwise).add(timer_key)
    return len(by_kill), len(otherwise - by_kill)
