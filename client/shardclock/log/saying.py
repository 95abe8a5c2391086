"""Write a consumer's events into the program's log: one line each, with its fields in the text and as `extra`."""

import logging

from shardclock.log.place import PartitionPlace

LOGGER = logging.getLogger("shardclock.log")
SAID_S = 60.0  # while the work on a batch goes on, log that once in this time


class GroupLog:
    """Log the events of one group's member."""

    def __init__(self, group: str) -> None:
        self._group = group

    def info(self, event: str, **fields: object) -> None:
        """Log that all is well again."""
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log a failure that is tried again."""
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log a failure that an operator must look at."""
        self._say(logging.ERROR, event, fields)

    def _say(self, level: int, event: str, fields: dict[str, object]) -> None:
        known = {"group": self._group, **fields}
        text = " ".join(f"{name}={value!r}" for name, value in known.items())
        LOGGER.log(level, "%s: %s", event, text, extra={"event": event, "fields": known})


class Lasting:
    """Say once a minute that the work on a batch goes on."""

    def __init__(self, log: GroupLog, began_s: float) -> None:
        self._log, self._began_s, self._said_s = log, began_s, began_s

    def say(self, now_s: float, records: int, place: PartitionPlace) -> None:
        """Say it if it was not said for a minute."""
        if now_s < self._said_s + SAID_S:
            return
        self._said_s = now_s
        self._log.warning(
            "still at work on a batch", records=records, seconds=round(now_s - self._began_s),
            position=place.position, partition=place.partition,
        )  # fmt: skip
