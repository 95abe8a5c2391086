"""Gateways choose, fork and join."""

import pytest

from shardclock_server.bpmn.step.signals import VariablesSet
from tests.support.bpmn import Played, boundary, definition, job, timer

ABC = '<endEvent id="a"/><endEvent id="b"/><endEvent id="c"/>'


@pytest.mark.parametrize("x", [None, "150"])
@pytest.mark.parametrize("gateway", ["exclusiveGateway", "inclusiveGateway"])
def test_a_condition_that_is_neither_true_nor_false_is_an_incident(gateway: str, x: object) -> None:
    played = Played(
        definition(f'<startEvent id="s"/><{gateway} id="g" default="g-b"/>{ABC}', connected="s>g g>a[x > 100] g>b"),
        {"x": x},  # type: ignore[dict-item]
    )
    (incident,) = played.incidents.values()
    assert incident.node_id == "g"
    assert incident.sentence == (
        "the condition of the flow to a, 'x > 100', is null, and neither true nor false (the variable 'x' of the"
        f" process p is {'null' if x is None else 'a text'}); correct the variables, and resolve the incident"
    )
    assert played.send(VariablesSet(1, {"x": 150}))
    assert played.retry()
    assert "a+" in played.history


def test_an_inclusive_join_waits_for_tokens_that_can_still_come() -> None:
    model = definition(
        f'<startEvent id="s"/><inclusiveGateway id="g"/>{job("a")}{job("b")}{job("c")}<inclusiveGateway id="j"/>'
        '<endEvent id="e"/>',
        connected="s>g g>a[x > 0] g>b[x > 1] g>c[x > 2] a>j b>j c>j j>e",
    )
    played = Played(model, {"x": 2})
    assert played.waits == ["a", "b"]
    assert played.complete("a")
    assert played.waits == ["b"], "it can still come"
    assert played.complete("b")
    assert played.history.count("j+") == 1
    assert played.ended

    alone = Played(model, {"x": 1})
    assert alone.complete("a")
    assert alone.ended


def test_an_inclusive_join_continues_when_the_other_tokens_have_ended_elsewhere() -> None:
    played = Played(
        definition(
            f'<startEvent id="s"/><inclusiveGateway id="g"/>{job("a")}{job("b")}'
            '<exclusiveGateway id="x" default="x-o"/><inclusiveGateway id="j"/><endEvent id="e"/><endEvent id="o"/>',
            connected="s>g g>a[true] g>b[true] a>j b>x x>j[back] x>o j>e",
        ),
        {"back": False},
    )
    assert played.complete("a")
    assert "j+" not in played.history
    assert played.complete("b")
    assert played.history[-4:] == ["j-", "e+", "e-", "p-"]


WITH_A_WAY_BACK = (
    f'<startEvent id="s"/><inclusiveGateway id="g"/><exclusiveGateway id="m"/>{job("a")}{job("b")}{job("c")}{job("d")}'
    '<inclusiveGateway id="j"/><endEvent id="e"/>'
)


def test_an_inclusive_join_continues_when_each_flow_was_taken_even_if_a_token_can_still_come() -> None:
    links = "s>g g>m[true] g>b[true] g>c[true] c>m m>a a>j b>j j>e"
    played = Played(definition(WITH_A_WAY_BACK, connected=links))
    assert played.complete("a")
    assert played.complete("b")
    assert played.history[-4:] == ["j+", "j-", "e+", "e-"]
    assert played.waits == ["c"]


def test_an_inclusive_join_does_not_wait_for_a_token_that_can_only_come_through_a_taken_flow() -> None:
    links = "s>g g>m[true] g>b[true] g>c[true] g>d[false] c>m m>a a>j b>j d>j j>e"
    played = Played(definition(WITH_A_WAY_BACK, connected=links))
    assert played.complete("a")
    assert "j+" not in played.history, "b can come by a flow that was not taken"
    assert played.complete("b")
    assert played.history.count("j+") == 1
    assert played.complete("c")
    assert played.complete("a")
    assert played.history.count("j+") == 2
    assert played.ended


def test_an_inclusive_join_waits_for_a_token_that_can_return_and_does_not_wait_for_itself() -> None:
    links = "s>g g>j[true] g>a[true] j>a a>x x>j[again] x>e"
    played = Played(
        definition(
            f'<startEvent id="s"/><inclusiveGateway id="g"/><inclusiveGateway id="j"/>{job("a")}'
            '<exclusiveGateway id="x" default="x-e"/><endEvent id="e"/>',
            connected=links,
        ),
        {"again": False},
    )
    assert played.waits == ["a"]
    assert "j+" not in played.history
    assert played.complete("a")
    assert played.history.count("j+") == 1, "no token can come back"
    assert played.complete("a", again=True)
    assert played.history.count("j+") == 2, "the token came back, and no other token can come"
    assert played.complete("a", again=False)
    assert played.ended


@pytest.mark.parametrize("interrupts", [True, False])
def test_an_inclusive_join_waits_for_a_token_that_can_come_through_a_boundary_event(interrupts: bool) -> None:
    event = boundary("n", "b", timer("timeDuration", "PT1H"), interrupts=interrupts)
    played = Played(
        definition(
            f'<startEvent id="s"/><parallelGateway id="g"/>{job("a")}{job("b")}{event}<inclusiveGateway id="j"/>'
            '<endEvent id="e"/><endEvent id="o"/>',
            connected="s>g g>a g>b a>j n>j b>o j>e",
        )
    )
    assert played.complete("a")
    assert "j+" not in played.history
    assert played.complete("b")
    assert played.history[-5:] == ["j+", "j-", "e+", "e-", "p-"]


def test_a_join_that_waits_for_a_token_that_can_t_come_is_an_incident() -> None:
    played = Played(
        definition(
            '<startEvent id="s"/><exclusiveGateway id="g" default="g-j"/><task id="a"/><parallelGateway id="j"/>',
            connected="s>g g>a[false] g>j a>j",
        )
    )
    (incident,) = played.incidents.values()
    assert incident.sentence.startswith("j waits for a token that can't come")


def test_an_expression_that_never_ends_is_an_incident() -> None:
    played = Played(
        definition(
            f'<startEvent id="s"/><exclusiveGateway id="g"/>{ABC}',
            connected="s>g g>a[count(for i in 1..100000000 return i) = 1] g>b[true]",
        )
    )
    (incident,) = played.incidents.values()
    assert "100,000" in incident.sentence


@pytest.mark.parametrize("by_node", [False, True], ids=["in one step", "in a step for each node"])
def test_a_cycle_of_nodes_without_a_wait_is_an_incident(by_node: bool) -> None:
    circle = definition('<startEvent id="s"/><task id="a"/><task id="b"/>', connected="s>a a>b b>a")
    played = Played(circle, by_node=by_node)
    assert played.parts == (10_000 if by_node else 0)
    (incident,) = played.incidents.values()
    assert "10,000 nodes without waiting" in incident.sentence
    assert len(played.instance.tokens) == 2
