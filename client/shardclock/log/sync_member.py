# `make docs` writes this file from async_member.py: change that file, and run `make docs`.
"""Run one member of a consumer group: rounds of work, waits, retries and reports of failures."""

import time
from collections.abc import Callable
from typing import Any

from shardclock.api.errors import ApiError
from shardclock.backoff import Backoff
from shardclock.log.failures import GroupDropped, WorkFailed, WorkTooSlow, error_text, is_passing, is_unknown_host
from shardclock.log.group_log import GroupLog
from shardclock.log.pace import Pace
from shardclock.log.partition import PartitionState
from shardclock.log.record import LogRecord
from shardclock.log.sync_groups import knows_group, note_failure, open_group, set_record_aside
from shardclock.log.sync_link import Link
from shardclock.log.sync_timing import Turn, sleep

POLL_S = 0.1
GROUP_LENGTH_MAX = 200
PARTITIONS_MAX = 840  # Each partition has at least one of the 840 slots.
RETRY = Backoff(0.2, 30.0)  # The pauses between retries of a record, and between attempts to reach Postgres.
GROUP_S = 10.0  # The interval at which a member without records checks that its group still exists.
WORK_S = 60.0  # The timeout of work in a transaction; a batch takes about 1 s, so only a slow record exceeds it.
DATA_EXCEPTION = "22"  # The class of SQLSTATEs for an invalid value.


class Member:
    """Repeat rounds (`turn`) of a group's work until cancelled.

    A round returns whether the next round follows without a pause.
    """

    def __init__(
        self, connect: Callable[[], Any], group: str, *, partitions: int | None = None, attempts: int | None = None
    ) -> None:
        if not callable(connect):
            raise TypeError(
                f"connect is a {type(connect).__name__}: give a function that opens a connection, as"
                " `lambda: driver.connect(dsn)`"
            )
        if not 1 <= len(group) <= GROUP_LENGTH_MAX:
            raise ValueError(
                f"group {group[:GROUP_LENGTH_MAX]!r} has {len(group)} characters: give 1 to {GROUP_LENGTH_MAX}"
            )
        if attempts is not None and attempts < 1:
            raise ValueError(f"attempts {attempts} is not possible: give 1 or more, or None to try for ever")
        if partitions is not None and not 1 <= partitions <= PARTITIONS_MAX:
            raise ValueError(f"partitions {partitions} is not possible: give 1 to {PARTITIONS_MAX}")
        self.group = group
        # Longer than the timeout of the work, so that the work times out first, with a clear error.
        self.link = Link(connect, application=f"shardclock consumer {group}"[:63], timeout_s=WORK_S * 1.5)
        self.pace = Pace()
        self.attempts = attempts
        self.log = GroupLog(group)
        self._partitions = partitions
        self._is_open = False
        self._known_s = time.monotonic()

    def run(self, turn: Turn) -> None:
        """Register the group, then repeat rounds of work; log an outage, and wait for its end.

        errors:  GroupDiffers  the group has another number of partitions.
                 GroupDropped  the group was dropped meanwhile.
                 Exception     an error of the driver: the connection can't be opened, or the role lacks a right.
        """
        outages = 0
        with self.link:
            while True:
                try:
                    self._turn(turn)
                except Exception as error:
                    if not is_passing(error) or (not self._is_open and is_unknown_host(error)):
                        raise
                    outages += 1
                    self.pace.slow()  # use a smaller batch, because the last batch was too large to be read in time
                    self.log.warning("Postgres does not answer", times=outages, error=error_text(error)[:500])
                    sleep(RETRY.scattered_s(outages))
                    continue
                if outages:
                    self.log.info("Postgres answers again", after_failures=outages)
                outages = 0

    def _turn(self, turn: Turn) -> None:
        if not self._is_open:
            open_group(self.link, self.group, self._partitions)
            self._is_open = True
        if not turn():
            self._check_group()
            self.link.wait(POLL_S)

    def _check_group(self) -> None:
        """Check at intervals that the group still exists, because a member of a dropped group would wait for ever."""
        now_s = time.monotonic()
        if now_s < self._known_s + GROUP_S:
            return
        if not knows_group(self.link, self.group):
            raise GroupDropped(
                f"group '{self.group}' has been dropped: a new member creates it again, at the log's beginning"
            )
        self._known_s = now_s

    def fail(self, failure: WorkFailed) -> None:
        """Store and log an error; a record that fails alone is retried after growing pauses, and then skipped."""
        state, records, alone = failure.state, failure.records, len(failure.records) == 1
        error = error_text(failure.error)
        if isinstance(failure.error, WorkTooSlow):
            self.pace.slow()
        else:
            self.pace.failed(len(records))
        wait_s = RETRY.scattered_s(state.attempts + 1) if alone else 0.0
        attempts = self._note(state, error, alone=alone, wait_s=wait_s)
        what = {"partition": state.partition, "position": records[0].position, "error": error[:500]}
        if attempts is None:
            self.log.warning("work failed, but another member has done the same work", **what)
        elif not alone:
            self.log.warning("work failed on a batch, which is halved", records=len(records), **what)
        elif self.attempts is not None and attempts >= self.attempts:
            self.set_aside(state, records[0], attempts)
        else:
            self.log.warning("work failed", attempts=attempts, retry_s=round(wait_s, 1), **what)

    def _note(self, state: PartitionState, error: str, *, alone: bool, wait_s: float) -> int | None:
        try:
            return note_failure(self.link, state, error, alone=alone, wait_s=wait_s)
        except ApiError as refusal:
            # If the database's encoding can't store a character of the error, Postgres refuses the value.
            if not str(refusal.members.get("sqlstate", "")).startswith(DATA_EXCEPTION):
                raise
            return note_failure(self.link, state, ascii(error)[1:-1], alone=alone, wait_s=wait_s)

    def set_aside(self, state: PartitionState, record: LogRecord, attempts: int) -> None:
        """Skip a record that has failed too often, and store it in the table `records_aside`."""
        if set_record_aside(self.link, state, record.position, attempts=attempts):
            self.log.error(
                "record set aside", partition=state.partition, position=record.position, timer_key=record.timer_key,
                attempts=attempts, see=f"shardclock consumers aside {self.group}",
            )  # fmt: skip
