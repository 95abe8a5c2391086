"""Record transactions in commit order, from a logical replication slot that was created before the run.

The positions and timestamps in rows do not give the commit order, because a transaction sets them before its commit.
The slot gives whole transactions in commit order, and survives each crash of the server. The recorder reads the slot
with SQL, in the format of Postgres's own plugin `pgoutput`.
"""

from __future__ import annotations

import asyncpg

from chaos.history.changes import Commit
from chaos.pgoutput import decode

SLOT = "chaos"
CHANGES_A_PEEK = 100_000
ANSWER_S = 60.0
COLUMNS = {
    "timers": "timer_key, due_date, tenant_id, name, schedule, occurrence, claimed_by, claimed_until, paused_due_date,"
    " process_instance_key, target_element_id",
    "deliveries": "timer_key, target, claimed_by, claimed_until, claims, failed_attempts, tenant_id,"
    " process_instance_key, target_element_id, timer_type, payload",
    "holders": "holder, part, part_count, pid, seen_at, ended_at, suspended_at, role",
    "leadership": "renewed_at, leader",
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
    -- The log has no primary key, so Postgres can publish only its inserts. The inserts into its partitions are
    -- published under the name of the whole table.
    create publication chaos_log for table shardclock.command_log ({COLUMNS["command_log"]})
        with (publish = 'insert', publish_via_partition_root = true);
"""
MAKE_SLOT = f"select pg_create_logical_replication_slot('{SLOT}', 'pgoutput')"
PEEK = (
    f"select data from pg_logical_slot_peek_binary_changes('{SLOT}', null, $1,"
    " 'proto_version', '1', 'publication_names', 'chaos_rows,chaos_log')"
)
FORGET = f"select pg_replication_slot_advance('{SLOT}', $1::text::pg_lsn)"


class Recorder:
    """Read the slot; `commits` has the transactions so far, in commit order.

    Postgres keeps its write-ahead log until the slot is read: about 20 MB a minute. The recorder reads the slot only
    after the run, because a read during the run would block the rig, and all traffic through its proxy.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.commits: list[Commit] = []

    async def start(self) -> None:
        """Create the slot, which records all later commits."""
        connection = await self._connect()
        try:
            await connection.execute(PUBLISH)
            await connection.execute(MAKE_SLOT)
        finally:
            connection.terminate()

    async def drain(self) -> None:
        """Read all commits since the last call.

        errors:  OSError, asyncpg.PostgresError, asyncpg.InterfaceError  Postgres is unavailable; call again
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
        """Add whole transactions; return the LSN at the end of the last transaction, or None without a transaction."""
        end = None
        last = self.commits[-1].lsn if self.commits else 0
        for commit, end_lsn in decode(messages):
            end = f"{end_lsn >> 32:X}/{end_lsn & 0xFFFFFFFF:X}"
            # After a crash, the slot may start again at the last checkpoint.
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
