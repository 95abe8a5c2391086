"""What a metric is: its name, kind, help, labels, and the values that its labels can take.

Each package declares its own in a module `families`: shards, workers, engines, gateways, the coordinator, and `metrics`
for what the exporter reads in the tables. `cluster.families` brings together those that are reported. What no package
declares is refused.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from shardclock_server.timers.model import SLOTS

PREFIX = "shardclock_"
Kind = Literal["counter", "gauge", "histogram"]

# What a user may name a handler, as the client says.
OPEN_VALUE = re.compile(r"[a-z0-9_.:-]{1,200}")


@dataclass(frozen=True, slots=True)
class Label:
    """One label, and every value that it can take.

    Users name the values of an open label. What counts them has a limit, beyond which all are `other`.
    """

    name: str
    values: frozenset[str]
    is_open: bool = False
    open_value: re.Pattern[str] = OPEN_VALUE  # of an open label, what users may name one

    def accepts(self, value: str) -> bool:
        """Say whether it can have this value."""
        return value in self.values or (self.is_open and self.open_value.fullmatch(value) is not None)


# The label's value for a holder without slots: it may still sweep, and fire what it leases.
NO_SHARD = "none"
SHARD = Label("shard", frozenset([*map(str, range(SLOTS)), NO_SHARD]))


# The loops of all keepers: a label has one set of values, whichever metric has the label.
LOOP = Label(
    "loop",
    frozenset(
        [
            "beats",
            "claims",
            "delivery_hints",
            "endpoints",
            "fires",
            "hints",
            "record_hints",
            "renewals",
            "runs",
            "searches",
            "settles",
            "steps",
            "tends",
            "watches",
        ]
    ),
)

# The label `target` says of which kind a target is; this one says which it is. An app has as many targets as it likes,
# a metric not: so many are told by name.
TARGETS_MAX = 50
OTHER = "other"
TARGET_NAME = Label("target_name", frozenset([OTHER]), is_open=True)
JOB_NAME = Label("job_name", frozenset([OTHER]), is_open=True)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric, as its users know it. A gauge that is `summed` is the sum of what all sources report."""

    name: str
    kind: Kind
    help: str
    labels: tuple[Label, ...] = ()
    edges: tuple[float, ...] = field(default=())
    summed: bool = False

    @property
    def label_names(self) -> list[str]:
        """Return the names of its labels."""
        return [label.name for label in self.labels]

    def accepts(self, values: Iterable[str]) -> bool:
        """Say whether these can be the values of its labels."""
        given = tuple(values)
        return len(given) == len(self.labels) and all(
            label.accepts(value) for label, value in zip(self.labels, given, strict=True)
        )


Families = Mapping[str, Family]


def by_name(*families: Family) -> Families:
    """Put families into one mapping; a name that two have is a fault of ours."""
    named = {family.name: family for family in families}
    assert len(named) == len(families), f"two families are called {[it.name for it in families]}"
    return named
