"""The log of attempts stores the newest attempts of each endpoint, up to a limit, and is written once."""

from __future__ import annotations

from typing import Any, cast

import pytest

from shardclock_server.sql.endpoints.attempts import KEPT_MAX
from shardclock_server.sql.endpoints.endpoints import EndpointName
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.webhooks.answer_classification import Answer, Delivered, EndpointGone, FaultSide, RetryDelivery
from shardclock_server.workers.attempt_log import LOG_MAX, AttemptLog
from tests.support.handlers import delivery

OK = Delivered(200, 0.01, b"thanks")


class Writes:
    """A fake session that records the written attempts, and may fail."""

    def __init__(self, *, failing: bool = False) -> None:
        self.written: list[dict[str, Any]] = []
        self._failing = failing

    async def rows(self, statement: str, /, **values: object) -> list[object]:
        assert statement == "keep_attempts"
        if self._failing:
            raise StoreUnavailable("no answer")
        self.written.append(values)
        return []


def key(number: int) -> EndpointName:
    return EndpointName("default", f"e{number}")


async def test_the_newest_attempts_of_each_endpoint_are_written_once() -> None:
    log, session = AttemptLog(), Writes()
    for number in range(1, KEPT_MAX + 6):
        log.add(key(1), delivery(number), OK)
    answers: list[Answer] = [
        EndpointGone("answered 410 Gone", 0.1),
        RetryDelivery("no answer", 0.2),
        RetryDelivery("the sender has no sockets", 0.0, fault=FaultSide.SENDER),
    ]
    for answer in answers:
        log.add(key(2), delivery(7), answer)
    assert len(log) == KEPT_MAX + 2

    await log.write(cast("Session", session))
    await log.write(cast("Session", session))

    log.add(key(1), delivery(99), OK)
    await log.write(cast("Session", session))

    (written,) = session.written
    assert written["timer_keys"] == [*range(6, KEPT_MAX + 6), 7, 7]
    assert written["statuses"] == [200] * KEPT_MAX + [410, None]
    assert written["failures"] == [None] * KEPT_MAX + ["answered 410 Gone", "no answer"]
    assert written["bodies"] == ["thanks"] * KEPT_MAX + ["", ""]
    assert len(log) == 1, "the next write is a second later"


async def test_a_full_log_of_attempts_accepts_no_entries_and_a_failed_write_clears_it() -> None:
    log = AttemptLog()
    for number in range(LOG_MAX + 5):
        log.add(key(number), delivery(1), OK)
    log.add(key(0), delivery(2), OK)
    assert len(log) == LOG_MAX

    with pytest.raises(StoreUnavailable):
        await log.write(cast("Session", Writes(failing=True)))
    assert len(log) == 0
