"""Compiled definitions, kept in memory."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from bpmn.model import Definition, InvalidModel, read_model
from sql.processes.definitions import read_definition
from sql.session import Session

KEPT_MAX = 1_000
NODES_KEPT_MAX = 100_000  # of all together, each some 2 KB
PAIRS_PER_NODE = 50  # of an inclusive gateway and a node before it, which take as much as one node


class Gone(LookupError):
    """A definition is not there, or an instance is not there."""


class ModelRefused(Exception):
    """A definition is there, and this release can't read its model; a newer one may."""


class Definitions:
    """Keep the definitions that were used last, each with the tenant whose it is; None: its model is refused."""

    def __init__(self, kept_max: int = KEPT_MAX, nodes_max: int = NODES_KEPT_MAX) -> None:
        self._kept: OrderedDict[int, tuple[str, Definition | None]] = OrderedDict()
        self._kept_max = kept_max
        self._nodes_max = nodes_max
        self._nodes = 0

    async def load(self, session: Session, definition_keys: Iterable[int]) -> None:
        """Read those that are not known yet; one that is not there stays unknown.

        Also what is refused is kept: a model never changes, and to read it again would take time in each batch.

        errors:  StoreUnavailable  no answer in time
        """
        wanted = set(definition_keys)
        for key in sorted(wanted):
            if key in self._kept:
                self._kept.move_to_end(key)
            elif (found := await _read(session, key)) is not None:
                self._kept[key] = found
                self._nodes += _nodes_of(found[1])
        # Those that are wanted now were used last, and stay whatever they take.
        while len(self._kept) > len(wanted) and (len(self._kept) > self._kept_max or self._nodes > self._nodes_max):
            _, (_, forgotten) = self._kept.popitem(last=False)
            self._nodes -= _nodes_of(forgotten)

    def get(self, definition_key: int, tenant_id: str) -> Definition:
        """Return a definition of a tenant that was loaded.

        errors:  Gone          it is not there
                 ModelRefused  leave it to a newer release
        """
        owner, definition = self._kept.get(definition_key, (None, None))
        if owner != tenant_id:
            raise Gone(f"there is no definition {definition_key}")
        if definition is None:
            raise ModelRefused(f"this release refuses the model of the definition {definition_key}")
        return definition


def _nodes_of(definition: Definition | None) -> int:
    """Say how much memory a definition takes, in nodes."""
    if definition is None:
        return 1
    return len(definition.nodes) + sum(map(len, definition.upstream.values())) // PAIRS_PER_NODE


async def _read(session: Session, definition_key: int) -> tuple[str, Definition | None] | None:
    """Read and compile one; None: it is not there. Without a definition: this release refuses its model."""
    stored = await read_definition(session, definition_key)
    if stored is None:
        return None
    try:
        # In a thread, so that heartbeats go on: a large model takes seconds.
        processes = await asyncio.to_thread(read_model, stored.model)
    except InvalidModel:
        return stored.tenant_id, None
    return stored.tenant_id, next((it for it in processes if it.process_id == stored.process_id), None)
