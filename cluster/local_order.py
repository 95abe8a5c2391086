"""The order of `up` to a host of local keepers; in a module of its own, so that `up` loads no keeper."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from shardclock_server.workers.app import NO_APP, App


@dataclass(frozen=True, slots=True)
class LocalOrder:
    """The order of `up` to the host of local keepers.

    `database` has the environment variables that name the database, for the processes that work on it.
    """

    cluster_id: str
    database: Mapping[str, str] = field(repr=False)
    is_embedded: bool
    metrics_socket: str
    app: str  # JSON, or ""

    def to_json(self) -> bytes:
        """Write it as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        """Read an order."""
        return cls(**json.loads(line))

    def named_app(self) -> App:
        """Return the user's app, which may have nothing."""
        return App.from_json(self.app) if self.app else NO_APP
