"""An error or escalation that a child does not catch ends the child only if a caller catches it."""

from __future__ import annotations

import pytest

from shardclock_server.bpmn.step.effects import ChildOpened, Outcome
from shardclock_server.bpmn.step.signals import ErrorThrown
from shardclock_server.bpmn.step.state import Catches
from tests.support.bpmn import Played, boundary, definition, event_subprocess, job

BESIDE = '<error id="x" errorCode="E1"/><error id="y"/><escalation id="c" escalationCode="C1"/>'
ERROR = '<errorEventDefinition errorRef="{}"/>'
ESCALATION = '<escalationEventDefinition escalationRef="c"/>'
CALLED = '<extensionElements><zeebe:calledElement processId="child"/></extensionElements>'
BOTH = definition(
    f'<startEvent id="s"/><parallelGateway id="g"/>{job("a")}{job("b")}', connected="s>g g>a g>b", beside=BESIDE
)
ESCALATING = definition(
    f'<startEvent id="s"/><intermediateThrowEvent id="t">{ESCALATION}</intermediateThrowEvent>'
    '<endEvent id="e"><signalEventDefinition signalRef="z"/></endEvent>',
    connected="s>t t>e",
    beside=BESIDE + '<signal id="z" name="done"/>',
)


def child(caught: Catches) -> Played:
    """Run a child with two jobs; the child's callers catch `caught`."""
    return Played(BOTH, {"x": 1, "secret": 5}, depth=1, catches=caught)


@pytest.mark.parametrize("caught", [Catches((("E1", True),)), Catches(((None, True),))], ids=str)
def test_an_error_that_a_caller_catches_ends_the_child_and_passes_its_variables_to_the_caller(
    caught: Catches,
) -> None:
    played = child(caught)
    assert played.send(ErrorThrown(played.token("a"), "E1", variables={"why": "no"}))
    assert (played.result.outcome, played.result.error_code) == (Outcome.ERROR, "E1")
    assert played.result.thrown == {"why": "no"}
    assert not played.open


@pytest.mark.parametrize("caught", [Catches(), Catches((("E2", True),))], ids=str)
def test_an_uncaught_error_is_an_incident_at_its_thrower_and_ends_no_instance(caught: Catches) -> None:
    played = child(caught)
    assert played.send(ErrorThrown(played.token("a"), "E1", "the card is stolen"))
    (incident,) = played.incidents.values()
    assert incident.node_id == "a"
    assert incident.sentence == (
        "no event catches the error 'E1': the card is stolen; resolve the incident to repeat the node, or move the"
        " token"
    )
    assert "b" in played.waits
    assert not played.ended

    assert played.retry()
    assert played.complete("a")
    assert played.complete("b")
    assert played.result.outcome == Outcome.COMPLETED


@pytest.mark.parametrize(
    ("caught", "thrown"),
    [(Catches(escalations=(("C1", True),)), []), (Catches(escalations=(("C1", False),)), ["done"])],
)
def test_a_child_continues_after_an_escalation_unless_the_caller_interrupts_the_call(
    caught: Catches, thrown: list[str]
) -> None:
    played = Played(ESCALATING, depth=1, catches=caught)
    assert played.escalated == ["C1"]
    assert [it.name for it in played.thrown] == thrown
    assert bool(played.ended) == bool(thrown)


def test_a_child_receives_the_catching_events_around_its_call_in_the_order_of_their_distance() -> None:
    call = f'<callActivity id="k">{CALLED}</callActivity>{boundary("all", "k", ERROR.format("y"))}'
    named = boundary("named", "k", ERROR.format("x"))
    inside = f'<startEvent id="is"/>{call}{named}<sequenceFlow id="if" sourceRef="is" targetRef="k"/>'
    around = boundary("late", "q", ESCALATION, interrupts=False) + event_subprocess("o", ESCALATION)
    elements = f'<startEvent id="s"/><subProcess id="q">{inside}</subProcess>{around}'
    above = Catches((("E9", True),), ((None, False),))

    played = Played(definition(elements, connected="s>q", beside=BESIDE), depth=1, catches=above)

    opened = played.open[played.token("k"), "k"]
    assert isinstance(opened, ChildOpened)
    assert opened.catches == Catches(
        (("E1", True), (None, True), ("E9", True)), (("C1", False), ("C1", True), (None, False))
    )


def test_a_child_receives_the_exact_codes_of_a_sub_process_before_the_sub_processs_catch_alls() -> None:
    call = f'<startEvent id="is"/><callActivity id="k">{CALLED}</callActivity>'
    link = '<sequenceFlow id="if" sourceRef="is" targetRef="k"/>'
    inside = call + link + event_subprocess("o", "<escalationEventDefinition/>")
    around = boundary("late", "q", ESCALATION, interrupts=False)
    elements = f'<startEvent id="s"/><subProcess id="q">{inside}</subProcess>{around}'

    played = Played(definition(elements, connected="s>q", beside=BESIDE))

    opened = played.open[played.token("k"), "k"]
    assert isinstance(opened, ChildOpened)
    assert opened.catches == Catches(escalations=(("C1", False), (None, True)))
