"""A token moves from element to element, and waits at a task until a handler or a person has done the work."""

from datetime import UTC, datetime

import pytest

from shardclock_server.bpmn.model import Definition
from shardclock_server.bpmn.step.effects import Outcome, ServiceTaskOpened, TaskOpened
from shardclock_server.bpmn.step.signals import ActivityCompleted, ActivityFailed, CancelAsked, Escalated, VariablesSet
from tests.support.bpmn import Played, boundary, definition, job

STRAIGHT = definition(
    f'<startEvent id="s"/>{job("a")}<endEvent id="e"/>',
    connected="s>a a>e",
)


def test_a_job_gets_all_variables_and_its_completion_ends_the_instance() -> None:
    played = Played(STRAIGHT, {"order": 42})
    assert played.history == ["p+", "s+", "s-", "a+"]
    opened = played.open[played.token("a"), "a"]
    assert isinstance(opened, ServiceTaskOpened)
    assert (opened.task_type, opened.variables) == ("a", {"order": 42})

    assert played.complete("a", paid=True)
    assert played.history[4:] == ["a-", "e+", "e-", "p-"]
    assert played.result.outcome == Outcome.COMPLETED
    assert played.result.variables == {"order": 42, "paid": True}
    assert not played.open


def test_a_second_answer_is_stale() -> None:
    played = Played(STRAIGHT)
    token = played.token("a")
    assert played.send(ActivityCompleted(token, {}))
    assert not played.send(ActivityCompleted(token, {}))
    assert not played.send(ActivityFailed(token, "too late"))
    assert not played.send(CancelAsked())


def test_a_cancellation_ends_the_instance_and_all_its_waits() -> None:
    played = Played(STRAIGHT, {"order": 42})
    assert played.send(CancelAsked())
    assert played.history[-2:] == ["ax", "px"]
    assert played.result.outcome == Outcome.CANCELED
    assert not played.open


def test_a_user_task_has_its_candidates_its_form_and_its_due_date() -> None:
    extensions = (
        "<extensionElements>"
        '<zeebe:assignmentDefinition assignee="=owner" candidateGroups="sales, support"/>'
        '<zeebe:taskSchedule dueDate="2026-02-01T08:00:00Z"/><zeebe:formDefinition formKey="form-1"/>'
        "</extensionElements>"
    )
    played = Played(
        definition(f'<startEvent id="s"/><userTask id="u">{extensions}</userTask>', connected="s>u"), {"owner": "ada"}
    )
    task = played.open[played.token("u"), "u"]
    assert isinstance(task, TaskOpened)
    assert (task.assignee, task.candidate_groups, task.form_key) == ("ada", ("sales", "support"), "form-1")
    assert task.due_date == datetime(2026, 2, 1, 8, tzinfo=UTC)
    assert played.complete("u")
    assert played.history[-2:] == ["u-", "p-"], "an element without an outgoing flow ends its path"


def test_a_date_time_of_feel_is_a_user_tasks_due_date() -> None:
    due = "=date and time(date(due), @&quot;09:00:00@Europe/Berlin&quot;)"
    schedule = f'<extensionElements><zeebe:taskSchedule dueDate="{due}"/></extensionElements>'
    played = Played(
        definition(f'<startEvent id="s"/><userTask id="u">{schedule}</userTask>', connected="s>u"),
        {"due": "2026-07-01"},
    )
    task = played.open[played.token("u"), "u"]
    assert isinstance(task, TaskOpened)
    assert task.due_date == datetime(2026, 7, 1, 7, tzinfo=UTC)


def test_attributes_of_camunda_7_set_assignee_candidates_and_topic() -> None:
    played = Played(
        definition(
            '<startEvent id="s"/><userTask id="u" camunda:assignee="${owner}" camunda:candidateUsers="ada,bob"/>'
            '<serviceTask id="t" camunda:type="external" camunda:topic="mail"/>',
            connected="s>u u>t",
        ),
        {"owner": "ada"},
    )
    task = played.open[played.token("u"), "u"]
    assert isinstance(task, TaskOpened)
    assert (task.assignee, task.candidate_users) == ("ada", ("ada", "bob"))
    assert played.complete("u")
    opened = played.open[played.token("t"), "t"]
    assert isinstance(opened, ServiceTaskOpened)
    assert opened.task_type == "mail"


def test_inputs_are_visible_only_to_the_task_and_outputs_are_visible_to_all() -> None:
    mapping = (
        "<extensionElements><zeebe:taskDefinition type='a'/><zeebe:ioMapping>"
        "<zeebe:input source='=order.total' target='amount'/>"
        "<zeebe:output source='=receipt' target='order.receipt'/></zeebe:ioMapping></extensionElements>"
    )
    played = Played(
        definition(f'<startEvent id="s"/><serviceTask id="a">{mapping}</serviceTask>', connected="s>a"),
        {"order": {"total": 10}},
    )
    opened = played.open[played.token("a"), "a"]
    assert isinstance(opened, ServiceTaskOpened)
    assert opened.variables == {"order": {"total": 10}, "amount": 10}
    assert played.complete("a", receipt="r-1", noise=1)
    assert played.result.variables == {"order": {"total": 10, "receipt": "r-1"}}


def test_outputs_go_to_the_nearest_scope_that_has_the_variable() -> None:
    mapping = (
        "<extensionElements><zeebe:taskDefinition type='a'/><zeebe:ioMapping>"
        "<zeebe:output source='=r' target='total'/><zeebe:output source='=r' target='order.total'/>"
        "</zeebe:ioMapping></extensionElements>"
    )
    inside = f'<startEvent id="is"/><serviceTask id="a">{mapping}</serviceTask>'
    played = Played(
        definition(
            f'<startEvent id="s"/><subProcess id="u">{inside}'
            '<sequenceFlow id="f" sourceRef="is" targetRef="a"/></subProcess>',
            connected="s>u",
        ),
        {"total": 0, "order": {"id": 7}},
    )
    assert played.complete("a", r=5)
    assert played.result.variables == {"total": 5, "order": {"id": 7, "total": 5}}


def test_variables_can_be_set_at_a_waiting_token() -> None:
    played = Played(STRAIGHT)
    assert played.send(VariablesSet(1, {"set": "later"}))
    assert played.complete("a")
    assert played.result.variables == {"set": "later"}


CALLING = '<extensionElements><zeebe:calledElement processId="child"/></extensionElements>'
ESCALATION = '<escalation id="c" escalationCode="LATE"/>'
THROWING = definition(
    '<startEvent id="s"/><intermediateThrowEvent id="t"><escalationEventDefinition escalationRef="c"/>'
    f"</intermediateThrowEvent>{job('a')}",
    connected="s>t t>a",
    beside=ESCALATION,
)


def calling(*, interrupts: bool) -> Definition:
    """Build a process that calls another process, and starts a job when the called process throws an escalation."""
    caught = boundary("b", "c", '<escalationEventDefinition escalationRef="c"/>', interrupts=interrupts)
    return definition(
        f'<startEvent id="s"/><callActivity id="c">{CALLING}</callActivity>{caught}{job("o")}',
        connected="s>c b>o",
        beside=ESCALATION,
    )


@pytest.mark.parametrize(("depth", "told"), [(0, []), (1, ["LATE"])])
def test_an_uncaught_escalation_goes_to_the_caller_and_the_child_continues(depth: int, told: list[str]) -> None:
    played = Played(THROWING, depth=depth)
    assert (played.escalated, played.waits) == (told, ["a"])


def test_an_escalation_that_a_caller_does_not_catch_goes_to_its_own_caller() -> None:
    played = Played(calling(interrupts=True), depth=1)
    assert played.send(Escalated(played.token("c"), "EARLY"))
    assert (played.waits, played.escalated) == (["c"], ["EARLY"])
