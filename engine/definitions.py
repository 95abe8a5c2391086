"""A cache of compiled definitions."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Iterable

from shardclock_server.bpmn.model import Definition, InvalidModel, read_model
from shardclock_server.sql.processes.definitions import read_definition
from shardclock_server.sql.session import Session

KEPT_MAX = 1_000
NODES_KEPT_MAX = 100_000  # The limit of nodes in all cached definitions; one node uses about 2 KB.
PAIRS_PER_NODE = 50  # This many pairs (inclusive gateway, preceding node) use as much memory as one node.


class Missing(LookupError):
    """A definition or an instance does not exist."""


class ModelRefused(Exception):
    """This release can't read a definition's model; perhaps only a newer release can read the model."""


class Definitions:
    """Cache the last used definitions with their tenants. An entry is None if the definition's model is refused."""

    def __init__(self, kept_max: int = KEPT_MAX, nodes_max: int = NODES_KEPT_MAX) -> None:
        self._kept: OrderedDict[int, tuple[str, Definition | None]] = OrderedDict()
        self._kept_max = kept_max
        self._nodes_max = nodes_max
        self._nodes = 0

    async def load(
        self, session: Session, definition_keys: Iterable[int], *, budget_s: float = math.inf
    ) -> dict[int, float]:
        """Read the definitions that are not cached, in the given order, until the time is over; read at least one.

        The refusal of a model is cached, because a model never changes; a missing definition is not cached.

        shape:   returns the load time of each definition in seconds, 0 for a cached definition. The result omits the
                 definitions for which no time was left
        errors:  StoreUnavailable  no answer before the timeout
        """
        took_s: dict[int, float] = {}
        left_s = budget_s
        for key in definition_keys:
            if left_s <= 0:
                break
            began_s = time.monotonic()
            if key in self._kept:
                self._kept.move_to_end(key)
                took_s[key] = 0.0
                continue
            if (found := await _read(session, key)) is not None:
                self._kept[key] = found
                self._nodes += _nodes_of(found[1])
            took_s[key] = time.monotonic() - began_s
            left_s -= took_s[key]
        self._forget(len(took_s))
        return took_s

    def _forget(self, wanted: int) -> None:
        """Remove the least recently used definitions while the cache exceeds a limit.

        The last `wanted` definitions stay, because this turn needs them.
        """
        while len(self._kept) > wanted and (len(self._kept) > self._kept_max or self._nodes > self._nodes_max):
            _, (_, forgotten) = self._kept.popitem(last=False)
            self._nodes -= _nodes_of(forgotten)

    def get(self, definition_key: int, tenant_id: str) -> Definition:
        """Return a loaded definition of a tenant.

        errors:  Missing       the definition does not exist.
                 ModelRefused  this release can't read the model; perhaps a newer release can.
        """
        owner, definition = self._kept.get(definition_key, (None, None))
        if owner != tenant_id:
            raise Missing(f"there is no definition {definition_key}")
        if definition is None:
            raise ModelRefused(f"this release refuses the model of the definition {definition_key}")
        return definition


def _nodes_of(definition: Definition | None) -> int:
    """Return how much memory a definition uses, measured in nodes."""
    if definition is None:
        return 1
    return len(definition.nodes) + sum(map(len, definition.upstream.values())) // PAIRS_PER_NODE


async def _read(session: Session, definition_key: int) -> tuple[str, Definition | None] | None:
    """Read and compile a definition.

    shape:   the tenant and the definition; the definition is None if this release refuses the model. The whole result
             is None if the definition does not exist
    """
    stored = await read_definition(session, definition_key)
    if stored is None:
        return None
    try:
        # Read the model in a thread, because a large model takes seconds and heartbeats must continue.
        processes = await asyncio.to_thread(read_model, stored.model)
    except InvalidModel:
        return stored.tenant_id, None
    return stored.tenant_id, next((it for it in processes if it.process_id == stored.process_id), None)
