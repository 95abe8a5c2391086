"""Log a consumer's events, one line for each event; the event's fields are in the text and in `extra`."""

import logging

from shardclock.log.partition import PartitionState

LOGGER = logging.getLogger("shardclock.log")
LOG_EVERY_S = 60.0  # the time between two log lines during the work on one batch


class GroupLog:
    """The log of one group's member."""

    def __init__(self, group: str) -> None:
        self._group = group

    def info(self, event: str, **fields: object) -> None:
        """Log that the work succeeds again, or that Postgres answers again."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log a failure that is retried."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log a failure that needs an operator."""
        self._write(logging.ERROR, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, object]) -> None:
        known = {"group": self._group, **fields}
        text = " ".join(f"{name}={value!r}" for name, value in known.items())
        LOGGER.log(level, "%s: %s", event, text, extra={"event": event, "fields": known})


class BatchTimer:
    """Log once a minute that the work on a batch continues."""

    def __init__(self, log: GroupLog, began_s: float) -> None:
        self._log, self._began_s, self._logged_s = log, began_s, began_s

    def log_if_due(self, now_s: float, records: int, state: PartitionState) -> None:
        """Log that the work continues, at most once a minute."""
        if now_s < self._logged_s + LOG_EVERY_S:
            return
        self._logged_s = now_s
        self._log.warning(
            "still at work on a batch", records=records, seconds=round(now_s - self._began_s),
            position=state.position, partition=state.partition,
        )  # fmt: skip
