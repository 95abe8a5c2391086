"""Avoid a node for a while after an actor on it went silent or did not start."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from shardclock.backoff import Backoff
from shardclock_server.coordinator.takeover_plan import KeeperState

FIRST_S = 10.0
MAX_S = 60.0  # Ray itself declares a silent node dead after about a minute
PAUSES = Backoff(FIRST_S, MAX_S)
PROVED_S = 30.0  # After a keeper on a node has sent heartbeats for this time, the node's failures are forgotten.


class Start(NamedTuple):
    """One start of an actor on a node: the time of the request, and the time of the start (None: not started yet)."""

    node_id: str
    asked_s: float
    up_s: float | None


def late_starts(starts: Mapping[str, Start], *, limit_s: float, now_s: float) -> set[str]:
    """Return the actors that have not started in time.

    The time limit of an actor begins again when another actor starts on the same node, because this node is slow but
    not broken.

    units:   all times in seconds of the monotonic clock
    """
    last_s: dict[str, float] = {}
    for it in starts.values():
        if it.up_s is not None:
            last_s[it.node_id] = max(it.up_s, last_s.get(it.node_id, 0.0))
    return {
        name
        for name, it in starts.items()
        if it.up_s is None and now_s - max(it.asked_s, last_s.get(it.node_id, 0.0)) > limit_s
    }


@dataclass(slots=True)
class _NodeFailures:
    """The failures of one node: consecutive failures, the time of the last failure, and the end of the quarantine."""

    failures: int
    failed_s: float
    until_s: float
    working_since_s: float | None = None


class Quarantine:
    """Avoid a node after a failure; each further failure doubles the duration of the quarantine.

    If an actor starts on the node during the quarantine, the node works, so the quarantine ends. The node's failures
    are forgotten after its keepers have sent heartbeats for `PROVED_S`.

    units:   now_s in seconds of the monotonic clock
    """

    def __init__(self) -> None:
        self._cases: dict[str, _NodeFailures] = {}

    def fail(self, node_ids: Iterable[str], *, now_s: float) -> None:
        """Record failures of nodes: an actor on the node went silent, could not be reached, or did not start.

        A failure during the quarantine of its node is ignored, because it probably has the same cause as the first
        failure.
        """
        for node_id in node_ids:
            case = self._cases.get(node_id)
            if case is not None and now_s < case.until_s:
                continue
            failures = 1 if case is None else case.failures + 1
            pause_s = PAUSES.pause_s(failures)
            self._cases[node_id] = _NodeFailures(failures, failed_s=now_s, until_s=now_s + pause_s)

    def learn_nodes(self, keepers: Iterable[KeeperState], nodes: Collection[str], *, now_s: float) -> None:
        """Record the working nodes: nodes with a keeper that sends heartbeats. Forget nodes that no longer exist."""
        started_s: dict[str, float] = {}
        for keeper in keepers:
            if keeper.ready:
                started_s[keeper.node_id] = max(keeper.started_s, started_s.get(keeper.node_id, 0.0))
        for node_id, case in list(self._cases.items()):
            if node_id not in nodes:
                del self._cases[node_id]
            elif node_id not in started_s:
                case.working_since_s = None
            else:
                self._trust(node_id, case, started_s[node_id], now_s=now_s)

    def nodes(self, *, now_s: float) -> tuple[str, ...]:
        """Return the nodes in quarantine, sorted by the ends of their quarantines."""
        kept = {node_id: case for node_id, case in self._cases.items() if now_s < case.until_s}
        return tuple(sorted(kept, key=lambda node_id: (kept[node_id].until_s, node_id)))

    def _trust(self, node_id: str, case: _NodeFailures, started_s: float, *, now_s: float) -> None:
        if started_s > case.failed_s:
            case.until_s = min(case.until_s, now_s)
        if case.working_since_s is None:
            case.working_since_s = now_s
        elif now_s - case.working_since_s >= PROVED_S and now_s >= case.until_s:
            del self._cases[node_id]
