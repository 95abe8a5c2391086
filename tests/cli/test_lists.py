"""Prove that a list says what is true when it shows nothing, and when it does not show all."""

from __future__ import annotations

import pytest

from tests.support.cli_asserts import DONE
from tests.support.program import Shell

FILTERED = [
    ("dead-letters --target typo", "dead letters"),
    ("deliveries --target typo", "deliveries"),
    ("endpoints --tenant typo", "endpoints"),
    ("keys --tenant typo", "keys"),
    ("processes incidents --process typo", "incidents"),
    ("processes instances --state incident", "instances"),
    ("processes list --tenant typo", "processes"),
    ("tasks list --group typo", "tasks"),
    ("tasks list --after 7", "tasks"),
]
WHOLE = [
    ("dead-letters", "there are no dead letters"),
    ("endpoints", "there are no endpoints; `shardclock endpoints add"),
    ("keys", "there are no keys; `shardclock keys add"),
    ("processes incidents", "there are no incidents"),
    ("processes instances", "no instance has begun; "),
    ("processes list", "no process is deployed; "),
    ("tasks list", "no task is open"),
]


@pytest.mark.parametrize(("words", "many"), FILTERED)
def test_a_list_that_its_filters_empty_does_not_say_that_there_is_nothing(shell: Shell, words: str, many: str) -> None:
    listed = shell(*words.split())

    assert (listed.code, listed.out, listed.err) == (DONE, "", f"there are no such {many}\n")


@pytest.mark.parametrize(("words", "said"), WHOLE)
def test_a_list_without_filters_says_that_there_is_nothing(shell: Shell, words: str, said: str) -> None:
    assert shell(*words.split()).err.startswith(said)
