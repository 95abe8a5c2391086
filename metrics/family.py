"""Define a metric by its name, kind, help and labels, with the possible values of the labels.

Each package declares its metrics in a module `families`: shards, workers, engines, gateways and the coordinator.
`metrics.families` declares the metrics that the exporter reads from the tables. `cluster.families` combines all metrics
that sources report. The exporter refuses metrics that no package declares.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from shardclock_server.timers.model import SLOTS

PREFIX = "shardclock_"
Kind = Literal["counter", "gauge", "histogram"]

# The pattern by which the client checks the names of handlers.
OPEN_VALUE = re.compile(r"[a-z0-9_.:-]{1,200}")


@dataclass(frozen=True, slots=True)
class Label:
    """Define a label and its possible values.

    The values of an open label are names that users choose. The source limits the number of names; further names are
    reported as `other`.
    """

    name: str
    values: frozenset[str]
    is_open: bool = False
    open_value: re.Pattern[str] = OPEN_VALUE  # the pattern for the names of an open label

    def accepts(self, value: str) -> bool:
        """Return whether the label can have this value."""
        return value in self.values or (self.is_open and self.open_value.fullmatch(value) is not None)


# The label value for a shard without slots, which still sweeps, and fires its leased timers.
NO_SHARD = "none"
SHARD = Label("shard", frozenset([*map(str, range(SLOTS)), NO_SHARD]))


# The loops of shards, workers and engines, in one label: a label has the same possible values in all metrics.
LOOP = Label(
    "loop",
    frozenset(
        [
            "beats",
            "claims",
            "delivery_notifications",
            "endpoints",
            "fires",
            "hand_overs",
            "notifications",
            "record_notifications",
            "renewals",
            "runs",
            "searches",
            "settles",
            "steps",
            "maintenance",
            "watches",
        ]
    ),
)

# The label `target` is the kind of a target, and `target_name` is the target's name. An app may have any number of
# targets, but a metric has a limited number of names.
TARGETS_MAX = 50
OTHER = "other"
TARGET_NAME = Label("target_name", frozenset([OTHER]), is_open=True)
JOB_NAME = Label("job_name", frozenset([OTHER]), is_open=True)


@dataclass(frozen=True, slots=True)
class Family:
    """Define one metric.

    A `summed` gauge is the sum of the values of all sources; any other gauge is the newest reported value.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[Label, ...] = ()
    edges: tuple[float, ...] = field(default=())
    summed: bool = False

    @property
    def label_names(self) -> list[str]:
        """Return the names of the labels."""
        return [label.name for label in self.labels]

    def accepts(self, values: Iterable[str]) -> bool:
        """Return whether the given values are possible values of the labels."""
        given = tuple(values)
        return len(given) == len(self.labels) and all(
            label.accepts(value) for label, value in zip(self.labels, given, strict=True)
        )


Families = Mapping[str, Family]


def by_name(*families: Family) -> Families:
    """Map families by name; the names must be unique."""
    named = {family.name: family for family in families}
    assert len(named) == len(families), f"two families are called {[it.name for it in families]}"
    return named
