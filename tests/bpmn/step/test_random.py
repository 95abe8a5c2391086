"""After each random move in a random process, the engine's waits equal the waits of a second interpreter."""

from itertools import count
from random import Random

import pytest

from shardclock_server.bpmn.step.effects import Outcome, ServiceTaskOpened
from shardclock_server.bpmn.step.signals import ActivityCompleted, CancelAsked, ErrorThrown, EventOccurred
from tests.support.bpmn import Played, definition
from tests.support.bpmn_blocks import ERROR, Scope, Written, drawn

MOVES_MAX = 200


def play(seed: int, *, by_node: bool = False) -> Outcome | None:
    """Run a process to its end; return None if an uncaught error stopped the process."""
    random = Random(seed)
    block = drawn(random, depth=random.randint(1, 4), numbers=count())
    ended: list[Outcome] = []
    expected = Scope(None, lambda: ended.append(Outcome.COMPLETED), None)
    expected.run(block)
    played = Played(definition(Written(block).elements, beside=ERROR), by_node=by_node)
    for _ in range(MOVES_MAX):
        assert sorted(played.waits) == sorted(expected.all_waits()), seed
        assert (played.ended is None) == (not ended), seed
        if ended:
            break
        if move(random, played, expected):
            return None
        if not ended and random.random() < 0.01:
            assert played.send(CancelAsked())
            assert not played.open, seed
            ended.append(Outcome.CANCELED)
            break
    assert ended, f"{seed}: no end after {MOVES_MAX} moves"
    assert played.result.outcome == ended[0], seed
    assert not played.instance.tokens
    assert not played.incidents
    return ended[0]


def move(random: Random, played: Played, expected: Scope) -> bool:
    """Apply one random event to both interpreters; return True if an uncaught error stopped the instance."""
    (token, node_id), opened = random.choice(list(played.open.items()))
    scope, go_on = expected.all_waits()[node_id]
    if isinstance(opened, ServiceTaskOpened) and random.random() < 0.2:
        assert played.send(ErrorThrown(token, "E"))
        if not scope.throw():
            assert [incident.node_id for incident in played.incidents.values()] == [node_id]
            return True
        return False
    signal = ActivityCompleted(token) if isinstance(opened, ServiceTaskOpened) else EventOccurred(token, node_id)
    assert played.send(signal)
    played.open.pop((token, node_id), None)  # a timer fires once
    assert not played.send(ActivityCompleted(token)) or not isinstance(opened, ServiceTaskOpened), (
        "it is stale the second time"
    )
    go_on()
    return False


def outcomes(seeds: range, *, by_node: bool = False) -> set[Outcome | None]:
    return {play(seed, by_node=by_node) for seed in seeds}


def test_a_few_hundred_random_processes_wait_and_end_as_a_second_interpreter_says() -> None:
    assert outcomes(range(300)) == {Outcome.COMPLETED, Outcome.CANCELED, None}


def test_random_processes_with_one_node_per_step_wait_and_end_as_a_second_interpreter_says() -> None:
    assert outcomes(range(300), by_node=True) == {Outcome.COMPLETED, Outcome.CANCELED, None}


@pytest.mark.exhaustive
def test_ten_thousand_random_processes_wait_and_end_as_a_second_interpreter_says() -> None:
    assert outcomes(range(300, 10_300)) == {Outcome.COMPLETED, Outcome.CANCELED, None}
