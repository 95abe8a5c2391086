"""Decide which cluster leads: the local stand-by cluster, or the cluster of Ray's keepers.

At the start, the local cluster leads. Ray's cluster gets the lead when `up` has reported that Ray's host is ready, and
the desired number of keepers have registered on the host's node. When the process that hosts Ray exits, the local
cluster takes the lead immediately, even if the leader's lease has not ended: docs/decisions/0081-local-stand-by.md.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from shardclock_server.coordinator.holders_seen import HoldersSeen
from shardclock_server.coordinator.lead_lapses import Lapses, ServiceWatch
from shardclock_server.sql.cluster.holders import SHARD, Holder
from shardclock_server.sql.cluster.leadership import Leadership, hand_over
from shardclock_server.sql.session import Session, StoreUnavailable

# The other coordinator takes an offered lead within 0.25 s. If the other coordinator does not take the lead, this
# coordinator takes the lead back after this time.
GIVEN_S = 3.0
# If the leader has had no running shard for this time, the lead moves. Ray replaces a single failed shard sooner.
UNSERVED_S = 4.0
OVERDUE_S = 60.0  # Ray starts all keepers in a few seconds, if its nodes have the resources.
PATIENCE_S = 2.0  # During this time, a free lead is reserved for clusters with running keepers.

LOCAL_LEADS = "local keepers lead: they fire until Ray's keepers are ready"
RAY_LEADS = "Ray's keepers lead: local keepers stand by"
MISSING = "Ray has started, but some of its keepers are missing: until they start, local keepers lead"


class StandBy:
    """Move the lead between this local cluster and Ray's cluster `beside`; do nothing while a third cluster leads.

    `orphans` are the holders of Ray's cluster that were running when its host ended.
    """

    def __init__(self, session: Session, cluster_id: str, *, beside: str, silent_s: float) -> None:
        self.orphans: frozenset[int] = frozenset()
        self._session, self._silent_s = session, silent_s
        self._cluster_id, self._beside = cluster_id, beside
        # The node of Ray's host while the host is ready, from the last report of `up`.
        self._node_id: str | None = None
        self._is_lost = self._is_beside_ready = self._has_given = False
        self._service, self._lapses = ServiceWatch(), Lapses()
        self._overdue_s: float | None = None
        self._leads_since_s: float | None = None
        self._told = ""

    def lose(self) -> None:
        """Record that Ray's host process has ended or will end."""
        self._node_id, self._is_lost = None, True

    def regain(self, node_id: str) -> None:
        """Record that Ray's host is ready, and cancel the record of an earlier host's loss."""
        self._node_id, self._is_lost = node_id, False
        self._lapses = Lapses()
        self._overdue_s = time.monotonic() + OVERDUE_S

    def forget_silence(self) -> None:
        """Reset the time without a running shard, because no keeper could send a heartbeat."""
        self._service.forget()

    @property
    def patience_s(self) -> float:
        """Return how long this cluster waits before it takes a free lead, to let Ray's cluster take it first."""
        return PATIENCE_S if self._is_beside_ready else 0.0

    def led_s(self) -> float:
        """Return for how long the local keepers have replaced Ray's keepers; 0 while this cluster does not lead."""
        return 0.0 if self._leads_since_s is None else time.monotonic() - self._leads_since_s

    async def take_lead(self) -> None:
        """Take the lead from Ray's cluster if Ray's host has ended since the last call.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        if not self._is_lost:
            return
        self._is_lost = False  # reset before the first await, because the next host may end during the await
        try:
            orphans = await self._take()
        except StoreUnavailable:
            self._is_lost = self._node_id is None
            raise
        # During the statement, the next host may have become ready. The keepers of the next host must not be ended.
        if self._node_id is None:
            self.orphans = orphans

    async def take_unserved(self, seen: HoldersSeen, leadership: Leadership) -> bool:
        """Take the lead if Ray's cluster has had no running shard for a while; return whether the lead was taken.

        Ray's cluster has no running shard if, for example, Ray's host runs but Ray starts no actor.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        is_served = leadership.cluster_id != self._beside or self._living(seen)[SHARD] > 0
        if self._service.learn(seen.read_s, is_served=is_served) < UNSERVED_S:
            return False
        self.orphans = await self._take()
        return True

    async def _take(self) -> frozenset[int]:
        """Take the lead if Ray's cluster has it; return the holders of Ray's cluster."""
        self._is_beside_ready = self._has_given = False
        await hand_over(self._session, self._cluster_id, lease_s=GIVEN_S, from_cluster=self._beside)
        seen = await HoldersSeen.read(self._session)
        return frozenset(it.holder for it in seen.holders if it.cluster_id == self._beside)

    async def give_lead(self, seen: HoldersSeen, leadership: Leadership) -> bool:
        """Hand the lead to Ray's cluster when that cluster is ready; return whether the lead moved.

        Each further loss of the lead makes the pause before the next offer longer. Local keepers fire timers during the
        pause.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        node_id = self._node_id
        self._learn_lapse(seen.read_s, leadership)
        self._is_beside_ready = node_id is not None and is_ready(self._living(seen), leadership.wanted)
        if self._is_beside_ready:
            self._overdue_s = None
        if not (leadership.leads and self._is_beside_ready and self._lapses.may_give(seen.read_s)):
            return False
        # The coordinator of a lost Ray cluster may still run. The offer names the node of the current Ray cluster, so
        # that only this cluster accepts.
        self._has_given = await hand_over(
            self._session, self._beside, lease_s=GIVEN_S, from_cluster=self._cluster_id, node_id=node_id
        )
        return self._has_given

    def _learn_lapse(self, now_s: float, leadership: Leadership) -> None:
        """Record a loss if Ray's cluster did not take or renew the lead that this cluster had offered."""
        if leadership.leads and self._has_given:
            self._has_given = False
            self._lapses.count(now_s)
        elif self._leads_beside(leadership):
            self._lapses.learn_lead(now_s)

    def _leads_beside(self, leadership: Leadership) -> bool:
        return leadership.cluster_id == self._beside and leadership.leader is not None

    def _living(self, seen: HoldersSeen) -> Counter[str]:
        """Count the keepers of Ray's cluster. Shards of a lost Ray cluster are on another node, and don't count."""
        there = [
            it
            for it in seen.holders
            if it.cluster_id == self._beside and it.holder not in self.orphans and self._node_id in (None, it.node_id)
        ]
        return living_of(there, silent_s=self._silent_s)

    def news(self, now_s: float, leadership: Leadership) -> list[str]:
        """Return the messages for the user: which keepers fire timers, and whether Ray's keepers are missing."""
        news = []
        if leadership.leads and self._overdue_s is not None and self._node_id is not None and now_s >= self._overdue_s:
            self._overdue_s = None
            news.append(MISSING)
        sentence = self._sentence(leadership)
        self._leads_since_s = (self._leads_since_s or now_s) if sentence == LOCAL_LEADS else None
        if sentence != self._told:
            self._told = sentence
            news += [sentence] if sentence else []
        return news

    def _sentence(self, leadership: Leadership) -> str:
        """Return the message about the serving keepers; "" if a third cluster leads."""
        if leadership.leads:
            return LOCAL_LEADS
        if self._leads_beside(leadership):
            return RAY_LEADS
        return self._told if leadership.cluster_id in (self._cluster_id, self._beside) else ""


def living_of(holders: Sequence[Holder], *, silent_s: float) -> Counter[str]:
    """Count the running keepers of a cluster that may work, for each role.

    A suspended keeper counts too, because its coordinator will resume it when the cluster leads.
    """
    return Counter(it.role for it in holders if it.silent_s < silent_s and it.foreign_reason is None)


def is_ready(living: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    """Return whether a cluster has the desired number of running keepers of each role, and at least one shard."""
    return living.get(SHARD, 0) > 0 and all(living.get(role, 0) >= count for role, count in wanted.items())
