"""Commit order, from a logical replication slot that was made before the run.

Positions and timestamps are drawn before their transaction commits, so neither tells which came first. The slot gives
transactions whole and in the order in which they committed, and outlives every crash of the server. It is read by SQL,
as Postgres's own plugin `pgoutput` writes it: https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import asyncpg

from chaos.history import (
    SIGNAL,
    Change,
    Commit,
    DeliveryDeleted,
    DeliveryWritten,
    HolderWritten,
    IncidentRaised,
    InstanceStepped,
    InstanceWritten,
    Recorded,
    TaskDeleted,
    TaskWritten,
    TimerDeleted,
    TimerWritten,
)

SLOT = "chaos"
CHANGES_A_PEEK = 100_000
ANSWER_S = 60.0
COLUMNS = {
    "timers": "timer_key, due_date, tenant_id, name, schedule, occurrence, claimed_by, claimed_until, paused_due_date,"
    " process_instance_key, target_element_id",
    "deliveries": "timer_key, target, claimed_by, claimed_until, claims, failed_attempts, tenant_id,"
    " process_instance_key, target_element_id, timer_type, payload",
    "holders": "holder, part, part_count, pid, seen_at, ended_at, suspended_at, role",
    "command_log": "position, recorded_at, timer_key, tenant_id, name, due_date, occurrence, intent, holder,"
    " schedule, payload, detail, target, process_instance_key",
    "instances": "instance_key, tenant_id, process_id, version, outcome, result",
    "instance_steps": "instance_key, version, holder, signals, passes",
    "tasks": "task_key, instance_key, node_id, completed_at",
    "incidents": "instance_key, token, signal_key, node_id, sentence",
}
_ROWS = ", ".join(
    f"table shardclock.{table} ({columns})" for table, columns in COLUMNS.items() if table != "command_log"
)
PUBLISH = f"""
    create publication chaos_rows for {_ROWS};
    -- Of a table without a key only inserts can be published; its partitions appear as the table.
    create publication chaos_log for table shardclock.command_log ({COLUMNS["command_log"]})
        with (publish = 'insert', publish_via_partition_root = true);
"""
MAKE_SLOT = f"select pg_create_logical_replication_slot('{SLOT}', 'pgoutput')"
PEEK = (
    f"select data from pg_logical_slot_peek_binary_changes('{SLOT}', null, $1,"
    " 'proto_version', '1', 'publication_names', 'chaos_rows,chaos_log')"
)
FORGET = f"select pg_replication_slot_advance('{SLOT}', $1::text::pg_lsn)"

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # Postgres's
_Row = Mapping[str, str]


class Recorder:
    """Read the slot; `commits` is what has been read, in commit order.

    Postgres keeps its log meanwhile, some 20 MB a minute. To read it while the run lasts would hold the rig up, and
    with it all traffic, which goes through its proxy.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.commits: list[Commit] = []

    async def start(self) -> None:
        """Make the slot: what commits from now on is recorded."""
        connection = await self._connect()
        try:
            await connection.execute(PUBLISH)
            await connection.execute(MAKE_SLOT)
        finally:
            connection.terminate()

    async def drain(self) -> None:
        """Read what has committed since.

        errors:  OSError, asyncpg.PostgresError, asyncpg.InterfaceError  Postgres is away: nothing is lost, call again
        """
        connection = await self._connect()
        try:
            while True:
                rows = await connection.fetch(PEEK, CHANGES_A_PEEK)
                end = self._learn([row["data"] for row in rows])
                if end is None:
                    return
                await connection.execute(FORGET, end)
        finally:
            connection.terminate()

    def _learn(self, messages: list[bytes]) -> str | None:
        """Take in whole transactions; where the last of them ends, as an LSN, if there was one."""
        end = None
        last = self.commits[-1].lsn if self.commits else 0
        for commit, end_lsn in decode(messages):
            end = f"{end_lsn >> 32:X}/{end_lsn & 0xFFFFFFFF:X}"
            # A crash may take the slot back to where it was at the last checkpoint.
            if commit.lsn > last:
                self.commits.append(commit)
        return end

    async def _connect(self) -> asyncpg.Connection:
        return await asyncpg.connect(
            self._dsn,
            timeout=ANSWER_S,
            command_timeout=ANSWER_S,
            server_settings={"timezone": "UTC", "application_name": "chaos recorder"},
        )


class _Relation(NamedTuple):
    columns: list[str]
    table: str


def decode(messages: list[bytes]) -> Iterator[tuple[Commit, int]]:
    """Turn pgoutput's messages into transactions, each with the LSN behind it; those without changes are left out."""
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
        at = end + 9  # its type and modifier
    return relid, _Relation(columns, table.decode())


def _change(kind: bytes, body: bytes, relations: Mapping[int, _Relation]) -> Change | None:
    (relid,) = struct.unpack("!I", body[:4])
    relation = relations[relid]
    at = 5
    row, at = _tuple(body, at, relation.columns)
    if body[4:5] in b"KO" and kind == b"U":
        row, at = _tuple(body, at + 1, relation.columns)
    if kind == b"D":
        # A holder or an instance that is forgotten has ended long before, and an incident that was raised is told.
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
            row[column] = sys.intern(body[at + 4 : at + 4 + size].decode())  # an hour repeats its names and rules
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


_MAKE: Mapping[str, Callable[[Any, bool], Change]] = {
    "timers": _timer,
    "command_log": _record,
    "deliveries": _delivery,
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
