"""Decode the messages of Postgres's plugin `pgoutput` into transactions.

source:  https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from chaos.history.changes import (
    SIGNAL,
    Change,
    Commit,
    DeliveryDeleted,
    DeliveryWritten,
    HolderWritten,
    IncidentRaised,
    InstanceStepped,
    InstanceWritten,
    LeaderWritten,
    Recorded,
    TaskDeleted,
    TaskWritten,
    TimerDeleted,
    TimerWritten,
)

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # Postgres's
_Row = Mapping[str, str]


class _Relation(NamedTuple):
    columns: list[str]
    table: str


def decode(messages: list[bytes]) -> Iterator[tuple[Commit, int]]:
    """Decodes pgoutput's messages into transactions, each with the LSN after the transaction's end."""
    relations: dict[int, _Relation] = {}
    xid, changes = 0, list[Change]()
    for message in messages:
        kind, body = message[:1], message[1:]
        if kind == b"B":
            xid, changes = struct.unpack("!I", body[16:20])[0], []
        elif kind == b"R":
            relid, relation = _relation(body)
            relations[relid] = relation
        elif kind in b"IUD":
            change = _change(kind, body, relations)
            if change is not None:
                changes.append(change)
        elif kind == b"C":
            lsn, end_lsn, at_us = struct.unpack("!xQQQ", body[:25])
            yield Commit(lsn, xid, _EPOCH + timedelta(microseconds=at_us), tuple(changes)), end_lsn


def _relation(body: bytes) -> tuple[int, _Relation]:
    (relid,) = struct.unpack("!I", body[:4])
    _, table, rest = body[4:].split(b"\0", 2)
    (count,) = struct.unpack("!xH", rest[:3])
    at, columns = 3, []
    for _ in range(count):
        end = rest.index(b"\0", at + 1)
        columns.append(rest[at + 1 : end].decode())
        at = end + 9  # Skip the type and the modifier of the column.
    return relid, _Relation(columns, table.decode())


def _change(kind: bytes, body: bytes, relations: Mapping[int, _Relation]) -> Change | None:
    (relid,) = struct.unpack("!I", body[:4])
    relation = relations[relid]
    at = 5
    row, at = _tuple(body, at, relation.columns)
    if body[4:5] in b"KO" and kind == b"U":
        row, at = _tuple(body, at + 1, relation.columns)
    if kind == b"D":
        # Ignore deletions of holders, instances and incidents: a deleted holder or instance ended long before, and an
        # incident has a separate record.
        return _GONE[relation.table](row) if relation.table in _GONE else None
    return _MAKE[relation.table](row, kind == b"I")


def _tuple(body: bytes, at: int, columns: list[str]) -> tuple[dict[str, str], int]:
    """Read the columns that are not null."""
    row: dict[str, str] = {}
    at += 2
    for column in columns:
        kind = body[at : at + 1]
        at += 1
        if kind == b"t":
            size = int.from_bytes(body[at : at + 4], "big")
            row[column] = sys.intern(
                body[at + 4 : at + 4 + size].decode()
            )  # Share equal texts, because the same names and rules occur many times.
            at += 4 + size
    return row, at


def _timer(row: _Row, new: bool) -> TimerWritten:
    return TimerWritten(
        new=new,
        timer_key=int(row["timer_key"]),
        due_date=_moment(row["due_date"]),
        tenant_id=row["tenant_id"],
        name=row.get("name"),
        schedule=row.get("schedule"),
        occurrence=int(row["occurrence"]),
        claimed_by=_int(row.get("claimed_by")),
        claimed_until=_maybe(row.get("claimed_until")),
        paused="paused_due_date" in row,
        instance_key=_int(row.get("process_instance_key")),
        node_id=row.get("target_element_id"),
    )


def _record(row: _Row, _: bool) -> Recorded:
    return Recorded(
        position=int(row["position"]),
        recorded_at=_moment(row["recorded_at"]),
        timer_key=int(row["timer_key"]),
        tenant_id=row["tenant_id"],
        name=row.get("name"),
        due_date=_moment(row["due_date"]),
        occurrence=int(row["occurrence"]),
        intent=row["intent"],
        holder=_int(row.get("holder")),
        schedule=row.get("schedule"),
        payload=row.get("payload"),
        detail=row.get("detail"),
        target=row["target"],
        instance_key=_int(row.get("process_instance_key")),
    )


def _holder(row: _Row, _: bool) -> HolderWritten:
    return HolderWritten(
        holder=int(row["holder"]),
        part=_int(row.get("part")),
        part_count=_int(row.get("part_count")),
        pid=int(row["pid"]),
        seen_at=_maybe(row.get("seen_at")),
        ended_at=_maybe(row.get("ended_at")),
        suspended_at=_maybe(row.get("suspended_at")),
        role=row["role"],
    )


def _delivery(row: _Row, new: bool) -> DeliveryWritten:
    is_job = row["timer_type"] == "SERVICE_TASK"
    return DeliveryWritten(
        new=new,
        timer_key=int(row["timer_key"]),
        target=row["target"],
        claimed_by=_int(row.get("claimed_by")),
        claimed_until=_maybe(row.get("claimed_until")),
        claims=int(row["claims"]),
        failed_attempts=int(row["failed_attempts"]),
        tenant_id=row["tenant_id"],
        instance_key=_int(row.get("process_instance_key")),
        node_id=row.get("target_element_id"),
        job=is_job,
        payload=row.get("payload") if is_job or row["target"] == SIGNAL else None,
    )


def _instance(row: _Row, new: bool) -> InstanceWritten:
    return InstanceWritten(
        new=new,
        instance_key=int(row["instance_key"]),
        tenant_id=row["tenant_id"],
        process_id=row["process_id"],
        version=int(row["version"]),
        outcome=row.get("outcome"),
        result=row.get("result"),
    )


def _step(row: _Row, _: bool) -> InstanceStepped:
    return InstanceStepped(
        int(row["instance_key"]), int(row["version"]), int(row["holder"]), row["signals"], row["passes"]
    )


def _task(row: _Row, new: bool) -> TaskWritten:
    return TaskWritten(
        new, int(row["task_key"]), int(row["instance_key"]), row["node_id"], completed="completed_at" in row
    )


def _incident(row: _Row, _: bool) -> IncidentRaised:
    return IncidentRaised(int(row["instance_key"]), row["node_id"], row["sentence"])


def _leader(row: _Row, _: bool) -> LeaderWritten:
    return LeaderWritten(_int(row.get("leader")))


_MAKE: Mapping[str, Callable[[Any, bool], Change]] = {
    "timers": _timer,
    "command_log": _record,
    "deliveries": _delivery,
    "leadership": _leader,
    "holders": _holder,
    "instances": _instance,
    "instance_steps": _step,
    "tasks": _task,
    "incidents": _incident,
}
_GONE: Mapping[str, Callable[[_Row], Change]] = {
    "timers": lambda row: TimerDeleted(int(row["timer_key"])),
    "deliveries": lambda row: DeliveryDeleted(int(row["timer_key"])),
    "tasks": lambda row: TaskDeleted(int(row["task_key"])),
}


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _maybe(text: str | None) -> datetime | None:
    return None if text is None else _moment(text)


def _int(text: str | None) -> int | None:
    return None if text is None else int(text)
