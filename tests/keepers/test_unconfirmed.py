"""Prove that a shard stores a message until it is confirmed or its lease expires; it is processed only once."""

from __future__ import annotations

from datetime import UTC, datetime

from shardclock_server.keepers.hand_over_socket import HandedOver
from shardclock_server.keepers.unconfirmed import STREAMS_MAX, StreamNumbers, Unconfirmed

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
LEASE_S = 5.0


def message(name: str) -> HandedOver:
    return HandedOver(0, NOW, LEASE_S, [(name,)])


def names(unconfirmed: Unconfirmed) -> list[str]:
    """List the messages that would be sent again."""
    return [it.rows[0][0] for it in unconfirmed.lasting()]


def test_messages_are_numbered_in_order_and_kept_until_they_are_confirmed() -> None:
    unconfirmed = Unconfirmed()
    assert [unconfirmed.add(message(name)).number for name in "abc"] == [1, 2, 3]

    unconfirmed.confirm(2)

    assert names(unconfirmed) == ["c"]
    assert unconfirmed.add(message("d")).number == 4


def test_a_message_with_an_expired_lease_is_not_sent_again() -> None:
    now_s = 100.0
    unconfirmed = Unconfirmed(lambda: now_s)
    unconfirmed.add(message("a"))
    now_s += LEASE_S - 1
    unconfirmed.add(message("b"))
    now_s += 2

    assert names(unconfirmed) == ["b"]
    assert len(unconfirmed) == 1


def test_a_number_of_a_stream_is_taken_once() -> None:
    numbers = StreamNumbers()

    assert [numbers.take(7, number) for number in (1, 2, 2, 1, 4)] == [True, True, False, False, True]
    assert numbers.take(8, 1)
    assert (numbers.last(7), numbers.last(8), numbers.last(9)) == (4, 1, 0)


def test_the_streams_that_came_last_are_remembered() -> None:
    numbers = StreamNumbers()
    for stream in range(STREAMS_MAX + 1):
        numbers.take(stream, 1)
        numbers.take(1, stream + 1)

    assert (numbers.last(0), numbers.last(1)) == (0, STREAMS_MAX + 1)
