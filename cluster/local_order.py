"""Define the order: the configuration that `up` sends to a host of local keepers. This module imports no keeper."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from shardclock_server.workers.app import NO_APP, App


@dataclass(frozen=True, slots=True)
class LocalOrder:
    """The configuration that `up` sends to the host of local keepers: the settings and the environment of the keepers.

    `environment` has the variables of the settings and of the database, for the keepers and the user's code. If the
    local keepers stand by for Ray, `beside` is the id of Ray's cluster; otherwise it is empty.
    """

    cluster_id: str
    environment: Mapping[str, str] = field(repr=False)
    is_embedded: bool
    metrics_socket: str
    app: str  # JSON, or ""
    beside: str = ""

    def to_json(self) -> bytes:
        """Convert the order to one line of text, without a line break at its end."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        """Parse the line of an order."""
        return cls(**json.loads(line))

    def named_app(self) -> App:
        """Return the user's app, which may be empty."""
        return App.from_json(self.app) if self.app else NO_APP
