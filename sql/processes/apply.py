"""Write the results of a batch of signals, in one statement."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, NamedTuple

from shardclock_server.sql.session import Session

Row = dict[str, Any]
DESCENDANTS_MAX = 10_000  # the limit of running called instances below one root instance


class AppliedSteps(NamedTuple):
    """The keys of the written instances, and the refusals of call activities by root instance."""

    written: list[int]
    full: dict[int, str]


@dataclass(slots=True)
class Writes:
    """The results of a batch: rows for the parameters of `apply_steps.sql`, each with its instance_key.

    shape:   `signals` are pairs of a signal's key and its instance's key; `spent` has the signals to ended instances
    """

    signals: list[tuple[int, int]] = field(default_factory=list)
    spent: list[int] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    timers: list[Row] = field(default_factory=list)
    service_tasks: list[Row] = field(default_factory=list)
    tasks: list[Row] = field(default_factory=list)
    subscriptions: list[Row] = field(default_factory=list)
    children: list[Row] = field(default_factory=list)
    closed: list[Row] = field(default_factory=list)
    incidents: list[Row] = field(default_factory=list)
    resolved: list[Row] = field(default_factory=list)
    sent: list[Row] = field(default_factory=list)
    returned: list[Row] = field(default_factory=list)
    thrown: list[Row] = field(default_factory=list)

    def add(self, other: "Writes") -> int:
        """Add another batch to this one; return the number of the added rows."""
        added = 0
        for name in LISTS:
            if rows := getattr(other, name):
                getattr(self, name).extend(rows)
                added += len(rows)
        return added

    def of(self, instance_keys: Sequence[int]) -> "Writes":
        """Return only the results of these instances."""
        keys = frozenset(instance_keys)
        part = Writes(signals=[pair for pair in self.signals if pair[1] in keys])
        for name in ROWS:
            setattr(part, name, [row for row in getattr(self, name) if row["instance_key"] in keys])
        return part


LISTS = tuple(it.name for it in fields(Writes))
ROWS = tuple(name for name in LISTS if name not in ("signals", "spent"))


async def apply_steps(
    session: Session, holder: int, writes: Writes, *, descendants_max: int = DESCENDANTS_MAX
) -> AppliedSteps:
    """Write the results of a batch of signals.

    An instance is not written if another engine has advanced it since the read, or is advancing it now. The signals of
    this instance then stay due. A call with the same batch may be repeated: a written instance has a new version, so
    the second call does not change the instance.

    errors:  StoreUnavailable  the outcome is unknown: read the signals again
             StatementRefused  Postgres refuses a row of the batch; nothing was written
    source:  sql/processes/apply_steps.sql
    """
    rows = await session.rows(
        "apply_steps",
        holder=holder,
        signals=[key for key, _ in writes.signals],
        signal_instances=[instance_key for _, instance_key in writes.signals],
        spent=writes.spent,
        descendants_max=descendants_max,
        **{name: json.dumps(getattr(writes, name), default=_text, ensure_ascii=False) for name in ROWS},
    )
    written = [row["instance_key"] for row in rows if row["full_root"] is None]
    return AppliedSteps(written, {row["full_root"]: row["refusal"] for row in rows if row["full_root"] is not None})


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} can't be written as JSON: a mistake in this program")
