"""A move of tokens, or a change during an incident, neither loses nor duplicates a token."""

import pytest

from shardclock_server.bpmn.step.signals import ErrorThrown, EventOccurred, Moved, VariablesSet
from tests.support.bpmn import SHARED, Played, definition, event_subprocess, job

INSIDE = f'<startEvent id="is"/>{job("a")}{job("b")}<sequenceFlow id="f" sourceRef="is" targetRef="a"/>'
MESSAGE = '<messageEventDefinition messageRef="m"/>'


def in_a_subprocess(attributes: str = "", beside: str = "") -> Played:
    """Run a sub-process `u` with a waiting job `a`; the job `o` comes after `u`."""
    return Played(
        definition(
            f'<startEvent id="s"/><subProcess id="u">{attributes}{INSIDE}{beside}</subProcess>{job("o")}',
            connected="s>u u>o",
            beside=SHARED,
        ),
        {"order": 42, "items": [1, 2]},
    )


def key_of(played: Played, node_id: str) -> int:
    return next(token.key for token in played.instance.tokens.values() if token.node_id == node_id)


def test_a_token_is_moved() -> None:
    played = in_a_subprocess()
    assert played.send(Moved((played.token("a"),), ("b",)))
    assert played.waits == ["b"]
    assert played.history[-2:] == ["ax", "b+"]


def test_a_move_can_t_begin_a_node_inside_a_token_that_it_terminates() -> None:
    played = in_a_subprocess()
    assert not played.send(Moved((key_of(played, "u"),), ("b",)))
    assert not played.send(Moved((1,), ("o",)))
    assert played.waits == ["a"]


def test_no_event_and_no_move_begins_a_node_in_a_scope_whose_end_has_an_incident() -> None:
    output = "<extensionElements><zeebe:ioMapping><zeebe:output source='=assert(x, x != null)' target='y'/>"
    message = event_subprocess("n", MESSAGE, interrupts=False)
    played = in_a_subprocess(output + "</zeebe:ioMapping></extensionElements>", message)
    scope = key_of(played, "u")
    assert played.complete("a")
    (incident,) = played.incidents.values()
    assert incident.node_id == "u"

    assert not played.send(EventOccurred(scope, "ns"))
    assert not played.send(Moved((), ("b",)))
    assert played.send(VariablesSet(1, {"x": 1}))
    assert played.retry()
    assert played.waits == ["o"]
    assert played.complete("o")
    assert played.ended
    assert not played.instance.tokens


def stuck_at_a_join() -> Played:
    """Run a fork to the jobs `a` and `b`; remove the token at `a`, and let the other token wait at the join `j`."""
    played = Played(
        definition(
            f'<startEvent id="s"/><parallelGateway id="f"/>{job("a")}{job("b")}<parallelGateway id="j"/>{job("o")}'
            '<endEvent id="e"/>',
            connected="s>f f>a f>b a>j b>j j>o o>e",
        )
    )
    assert played.send(Moved((played.token("a"),), ()))
    assert played.complete("b")
    (incident,) = played.incidents.values()
    assert incident.sentence.startswith("j waits for a token that can't come")
    return played


@pytest.mark.parametrize("begun", ["a", "j"])
def test_a_move_lets_a_join_with_an_incident_continue_with_or_without_the_missing_token(begun: str) -> None:
    played = stuck_at_a_join()
    assert played.send(Moved((), (begun,)))
    if begun == "a":
        assert played.complete("a")

    assert not played.incidents
    assert played.waits == ["o"]
    assert played.complete("o")
    assert played.ended
    assert not played.instance.tokens


def test_tokens_at_a_join_wait_while_another_token_passes_the_join() -> None:
    played = stuck_at_a_join()
    assert played.send(Moved((), ("o",)))
    assert played.complete("o")
    assert len(played.incidents) == 1
    assert not played.ended

    assert played.send(Moved((), ("a",)))
    assert played.complete("a")
    assert played.waits == ["o"]
    assert not played.incidents


def test_an_error_in_an_event_sub_process_of_one_execution_does_not_end_another_execution() -> None:
    loop = (
        "<multiInstanceLoopCharacteristics><extensionElements><zeebe:loopCharacteristics inputCollection='=items'/>"
        "</extensionElements></multiInstanceLoopCharacteristics>"
    )
    played = in_a_subprocess(loop, event_subprocess("n", "<errorEventDefinition/>"))
    first, second = (token for token, node_id in played.open if node_id == "a")
    assert played.send(ErrorThrown(first, "E1"))
    assert played.send(ErrorThrown(played.token("nj"), "E2"))
    assert [incident.node_id for incident in played.incidents.values()] == ["nj"]
    assert (second, "a") in played.open
