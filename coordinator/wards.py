"""The shard actors that a coordinator looks after, from their start to their end."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from structlog.typing import FilteringBoundLogger

from coordinator.fleet import RayFleet
from coordinator.plan import Member
from sql.holders import Holder


@dataclass(slots=True)
class Ward:
    """One shard actor that the coordinator looks after."""

    actor: Any
    node_id: str
    since: float
    watch: "asyncio.Task[None]"
    why_gone: str | None = None


class Wards:
    """Start shard actors, see how they end, and let them go.

    `changed` is called when one has ended.
    """

    def __init__(
        self, fleet: RayFleet, *, changed: Callable[[], None], start_s: float, drain_s: float, log: FilteringBoundLogger
    ) -> None:
        self._fleet = fleet
        self._changed = changed
        self._start_s = start_s
        self._drain_s = drain_s
        self._wards: dict[str, Ward] = {}
        self._log = log

    def __contains__(self, actor_name: object) -> bool:
        """Say whether an actor is looked after."""
        return actor_name in self._wards

    async def adopt(self) -> None:
        """Look after the actors that an earlier incarnation made.

        errors:  RayUnavailable  no answer in time
        """
        if self._wards:
            return
        for actor_name, actor in (await self._fleet.actors()).items():
            self._look_after(actor_name, actor, node_id="")

    async def spawn(self, node_id: str) -> None:
        """Start an actor on a node.

        errors:  RayUnavailable  no answer in time
        """
        actor_name, actor = await self._fleet.spawn(node_id)
        self._look_after(actor_name, actor, node_id)

    def gone(self) -> dict[str, str]:
        """Name the actors that have ended or seem to have, each with why."""
        return {name: ward.why_gone for name, ward in self._wards.items() if ward.why_gone}

    def give_up(self, actor_names: Iterable[str], why: str) -> None:
        """Count those of these actors that are looked after as gone."""
        for actor_name in self._wards.keys() & set(actor_names):
            self._wards[actor_name].why_gone = why

    def overdue_to_start(self, holders: Mapping[str, Holder]) -> list[str]:
        """Name the actors that should have become holders by now."""
        deadline = time.monotonic() - self._start_s
        return [name for name, ward in self._wards.items() if name not in holders and ward.since < deadline]

    def age_s(self, actor_name: str) -> float:
        """Say for how long an actor has been looked after."""
        return time.monotonic() - self._wards[actor_name].since

    def node_id(self, actor_name: str) -> str:
        """Say on which node an actor was started; "" if another incarnation did it."""
        return self._wards[actor_name].node_id

    def members(self, holders: Mapping[str, Holder], suspects: set[str]) -> list[Member]:
        """Describe each actor, with what its holder says if it has one."""
        return [
            Member(
                actor_name=name,
                node_id=holder.node_id if (holder := holders.get(name)) else ward.node_id,
                holder=holder.holder if holder else None,
                shard=holder.shard if holder else None,
                shard_count=holder.shard_count if holder else None,
                suspect=name in suspects,
                suspended=bool(holder and holder.suspended_at),
            )
            for name, ward in self._wards.items()
        ]

    async def retire(self, actor_names: Iterable[str] | None = None) -> None:
        """Drain actors side by side and kill them, all if none is named; who doesn't answer is killed, too.

        errors:  RayUnavailable  no answer in time
        """
        names = list(self._wards if actor_names is None else actor_names)
        await asyncio.gather(*(self._let_go(name, self._wards[name]) for name in names))

    async def drop(self, actor_names: Iterable[str]) -> None:
        """Forget actors that have ended; one that only seems so is killed, now or when Ray answers again.

        errors:  RayUnavailable  no answer in time
        """
        for actor_name in actor_names:
            ward = self._wards[actor_name]
            ward.watch.cancel()
            await self._fleet.kill(ward.actor)
            del self._wards[actor_name]

    def _look_after(self, actor_name: str, actor: Any, node_id: str) -> None:
        watch = asyncio.create_task(self._watch(actor_name, actor), name=f"watch {actor_name}")
        self._wards[actor_name] = Ward(actor=actor, node_id=node_id, since=time.monotonic(), watch=watch)

    async def _watch(self, actor_name: str, actor: Any) -> None:
        """Wait for an actor's end: the call is pending for as long as it lives, and fails when it dies."""
        try:
            await actor.watch.remote()
            why = "left"
        except Exception as error:  # noqa: BLE001 - whatever ended it, it has ended
            why = type(error).__name__
        if actor_name in self._wards:
            self._wards[actor_name].why_gone = why
            self._changed()

    async def _let_go(self, actor_name: str, ward: Ward) -> None:
        try:
            async with asyncio.timeout(self._drain_s):
                await ward.actor.drain.remote()
            self._log.info("retired", actor=actor_name)
        except Exception as error:  # noqa: BLE001 - an actor that can't drain is killed like one that did
            self._log.warning("would not drain", actor=actor_name, error=type(error).__name__)
        ward.why_gone = "retired"
        await self.drop([actor_name])
