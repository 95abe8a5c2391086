"""Test which node catches an event, whether a boundary event interrupts its activity, and events that come too late."""

import pytest

from shardclock_server.bpmn.model.definition import TimerKind
from shardclock_server.bpmn.step import opened_at_deployment
from shardclock_server.bpmn.step.effects import MessageOpened, TimerOpened
from shardclock_server.bpmn.step.signals import ActivityCompleted, ErrorThrown, VariablesSet
from shardclock_server.timers.moment import canonical_moment, parse_due_date
from tests.support.bpmn import NOW, SHARED, Played, boundary, definition, event_subprocess, job, timer

TEN_MINUTES = timer("timeDuration", "PT10M")


def with_boundary(event: str, *, interrupts: bool = True) -> Played:
    return Played(
        definition(
            f'<startEvent id="s"/>{job("a")}{boundary("b", "a", event, interrupts=interrupts)}'
            '<endEvent id="e"/><endEvent id="o"/>',
            connected="s>a a>e b>o",
            beside=SHARED,
        ),
        {"order": 42},
    )


def test_a_timer_s_expression_is_evaluated_when_its_scope_is_entered() -> None:
    event = timer("timeDuration", '=duration("PT1M") * factor')
    played = Played(
        definition(
            f'<startEvent id="s"/><intermediateCatchEvent id="t">{event}</intermediateCatchEvent>', connected="s>t"
        ),
        {"factor": 3},
    )
    opened = played.open[played.token("t"), "t"]
    assert isinstance(opened, TimerOpened)
    assert opened.text == "PT3M"


@pytest.mark.parametrize(
    ("at", "due"),
    [
        ('date and time(date(due), @"09:00:00@Europe/Berlin")', "2026-02-01T08:00:00Z"),
        ('date and time(date and time(due + "T08:00:00Z"), "Europe/Berlin")', "2026-02-01T08:00:00Z"),
        ('date and time(date(due), @"09:00:00+01:00")', "2026-02-01T08:00:00Z"),
        ('date and time("2026-07-01T09:30:00+02:00[Europe/Berlin]")', "2026-07-01T07:30:00Z"),
        ('due + "T09:00:00@Europe/Berlin"', "2026-02-01T08:00:00Z"),
        ('@"2026-10-25T02:30:00@Europe/Berlin" + @"PT1H"', "2026-10-25T01:30:00Z"),
        ('string(@"2026-10-25T02:30:00@Europe/Berlin")', "2026-10-25T00:30:00Z"),
        ("now() + duration(wait)", "2026-01-31T08:01:30.5Z"),
    ],
)
def test_a_date_time_of_feel_is_a_timers_date(at: str, due: str) -> None:
    event = timer("timeDate", f"={at}")
    played = Played(
        definition(
            f'<startEvent id="s"/><intermediateCatchEvent id="t">{event}</intermediateCatchEvent>', connected="s>t"
        ),
        {"due": "2026-02-01", "wait": "PT1M30.5S"},
    )
    opened = played.open[played.token("t"), "t"]
    assert isinstance(opened, TimerOpened)
    assert canonical_moment(parse_due_date(opened.text)) == due


def test_a_cycle_of_feel_is_a_timers_cycle() -> None:
    played = with_boundary(timer("timeCycle", '=cycle(order / 14, duration("PT1H"))'), interrupts=False)
    opened = played.open[played.token("a"), "b"]
    assert opened == TimerOpened(opened.token, "b", TimerKind.CYCLE, "R3/PT1H")


@pytest.mark.parametrize("value", ["2026-02-01T09:00:00@Mars/Olympus", "2026-02-01T09:00:00", "a@b", "2026-02-01"])
def test_a_value_that_is_not_a_moment_is_an_incident_of_a_date(value: str) -> None:
    played = Played(
        definition(
            f'<startEvent id="s"/><intermediateCatchEvent id="t">{timer("timeDate", "=at")}</intermediateCatchEvent>',
            connected="s>t",
        ),
        {"at": value},
    )
    assert [incident.node_id for incident in played.incidents.values()] == ["t"]


@pytest.mark.parametrize(
    "at", ['-duration("PT1H")', 'now() - (now() + duration("P3D"))', '"-P1M"', '"PT-5M"', '"P-1DT-2.5H"', '@"P1D" * -2']
)
def test_a_computed_negative_duration_is_due_at_once(at: str) -> None:
    played = with_boundary(timer("timeDuration", f"={at}"))
    assert played.open[played.token("a"), "b"] == TimerOpened(played.token("a"), "b", TimerKind.DURATION, "PT0S")


@pytest.mark.parametrize("at", ['"PT1H-5M"', '"-"', '"-PT"', '"--PT1H"', '"-1"', "-1", "null"])
def test_a_value_that_is_neither_a_duration_nor_a_negative_one_is_an_incident(at: str) -> None:
    played = with_boundary(timer("timeDuration", f"={at}"))
    assert [incident.node_id for incident in played.incidents.values()] == ["a"]


@pytest.mark.parametrize("cycle", ["0 0 30 2 *", "R/P9000Y", "0 25 * * *", "0 0 * * FRI-TUE"])
def test_a_computed_cycle_that_never_occurs_is_an_incident(cycle: str) -> None:
    played = with_boundary(timer("timeCycle", f'="{cycle}"'), interrupts=False)
    (incident,) = played.incidents.values()
    assert incident.node_id == "a"
    assert cycle[:10] in incident.sentence
    assert not played.open


@pytest.mark.parametrize("cycle", ["0 0 30 2 *", "R/PT1H/2020-01-31T08:00Z", '="R/PT1H/2020-01-31T08:00Z"'])
def test_a_cycle_that_has_ended_or_was_deployed_earlier_stops_no_token(cycle: str) -> None:
    played = with_boundary(timer("timeCycle", cycle), interrupts=False)
    assert not played.incidents
    assert played.open[played.token("a"), "b"] == TimerOpened(
        played.token("a"), "b", TimerKind.CYCLE, cycle.strip('="')
    )


@pytest.mark.parametrize("value", ["soon", None, [1], "PT1H-5M", "P9000Y"])
def test_an_invalid_time_is_an_incident_at_its_node(value: object) -> None:
    played = Played(
        definition(
            f'<startEvent id="s"/><intermediateCatchEvent id="t">{timer("timeDuration", "=at")}'
            "</intermediateCatchEvent>",
            connected="s>t",
        ),
        {"at": value},  # type: ignore[dict-item]
    )
    (incident,) = played.incidents.values()
    assert incident.node_id == "t"
    assert not played.open


def test_a_boundary_events_correlation_key_reads_the_outer_scope_and_its_time_reads_the_task() -> None:
    message = boundary("b", "a", '<messageEventDefinition messageRef="m"/>')
    late = boundary("t", "a", timer("timeDuration", "=late"))
    mapping = '<zeebe:input source="=7" target="order"/><zeebe:input source="PT1H" target="late"/>'
    task = job("a").replace("</extensionElements>", f"<zeebe:ioMapping>{mapping}</zeebe:ioMapping></extensionElements>")
    played = Played(
        definition(f'<startEvent id="s"/>{task}{message}{late}', connected="s>a", beside=SHARED), {"order": 42}
    )
    token = played.token("a")
    assert played.open[token, "b"] == MessageOpened(token, "b", "paid", "42")
    assert played.open[token, "t"] == TimerOpened(token, "t", TimerKind.DURATION, "PT1H")


def test_an_output_mapping_selects_from_an_error_s_variables() -> None:
    mapping = '<zeebe:ioMapping><zeebe:output source="=why" target="refused"/></zeebe:ioMapping>'
    played = with_boundary(f"<extensionElements>{mapping}</extensionElements><errorEventDefinition/>")
    assert played.send(ErrorThrown(played.token("a"), "E1", variables={"why": "stolen", "by": "ann"}))
    assert played.result.variables == {"order": 42, "refused": "stolen"}


def test_an_event_sub_process_passes_an_error_s_variables_to_the_process() -> None:
    caught = event_subprocess("n", "<errorEventDefinition/>")
    played = Played(definition(f'<startEvent id="s"/>{job("a")}{caught}', connected="s>a", beside=SHARED))
    assert played.send(ErrorThrown(played.token("a"), "E1", variables={"why": "stolen"}))
    assert played.complete("nj")
    assert played.result.variables == {"why": "stolen"}


def test_an_interrupting_event_sub_process_ends_all_other_tokens_in_its_scope() -> None:
    played = Played(
        definition(
            f'<startEvent id="s"/>{job("a")}{event_subprocess("n", TEN_MINUTES)}'
            + event_subprocess("k", '<signalEventDefinition signalRef="g"/>', interrupts=False),
            connected="s>a",
            beside=SHARED,
        )
    )
    assert played.waits == ["ns", "ks", "a"]
    assert played.trigger("ns")
    assert played.waits == ["nj"], "the other events of the scope are closed"
    assert played.complete("nj")
    assert played.history[-3:] == ["nj-", "n-", "p-"]


def test_an_event_sub_process_that_doesn_t_interrupt_keeps_its_scope_open() -> None:
    played = Played(
        definition(
            f'<startEvent id="s"/>{job("a")}'
            + event_subprocess("k", '<signalEventDefinition signalRef="g"/>', interrupts=False),
            connected="s>a",
            beside=SHARED,
        )
    )
    assert played.trigger("ks")
    assert played.trigger("ks")
    assert played.complete("a")
    assert not played.ended, "two event sub-processes still run"
    assert played.send(ActivityCompleted(played.token("kj")))
    assert played.send(ActivityCompleted(played.token("kj")))
    assert played.ended


def test_an_event_sub_process_catches_an_error_of_its_scope() -> None:
    played = Played(
        definition(
            f'<startEvent id="s"/>{job("a")}{event_subprocess("n", "<errorEventDefinition/>")}',
            connected="s>a",
            beside=SHARED,
        )
    )
    assert played.send(ErrorThrown(played.token("a"), "E9"))
    assert played.waits == ["nj"]
    assert played.send(ErrorThrown(played.token("nj"), "E9"))
    assert played.incidents, "an event sub-process does not catch its own error"


ERROR_2 = '<errorEventDefinition errorRef="y"/>'
ESCALATION = '<escalationEventDefinition escalationRef="c"/>'
ANY_ERROR, ANY_ESCALATION = "<errorEventDefinition/>", "<escalationEventDefinition/>"


@pytest.mark.parametrize(("exact", "catch_all"), [(ERROR_2, ANY_ERROR), (ESCALATION, ANY_ESCALATION)])
def test_an_exact_code_at_a_sub_process_takes_precedence_over_a_catch_all_inside_it(exact: str, catch_all: str) -> None:
    thrown = f'<startEvent id="is"/><endEvent id="ie">{exact}</endEvent>'
    inside = thrown + '<sequenceFlow id="f" sourceRef="is" targetRef="ie"/>' + event_subprocess("n", catch_all)
    played = Played(
        definition(
            f'<startEvent id="s"/><subProcess id="sub">{inside}</subProcess>{boundary("b", "sub", exact)}{job("o")}',
            connected="s>sub b>o",
            beside=SHARED,
        )
    )
    assert played.waits == ["o"]


def test_a_catch_all_in_an_inner_scope_takes_precedence_over_an_exact_code_in_an_outer_scope() -> None:
    thrown = f'<startEvent id="is"/>{job("a")}<sequenceFlow id="f" sourceRef="is" targetRef="a"/>'
    inside = thrown + boundary("k", "a", ANY_ERROR)
    outside = boundary("b", "sub", ERROR_2)
    played = Played(
        definition(
            f'<startEvent id="s"/><subProcess id="sub">{inside}</subProcess>{outside}',
            connected="s>sub",
            beside=SHARED,
        )
    )
    assert played.send(ErrorThrown(played.token("a"), "E2"))
    assert "k+" in played.history


def test_an_instance_that_an_event_began_continues_at_that_event_after_an_incident() -> None:
    message = event_subprocess("n", '<messageEventDefinition messageRef="m"/>')
    begun = '<startEvent id="g"><signalEventDefinition signalRef="g"/></startEvent>'
    played = Played(
        definition(f'<startEvent id="s"/>{begun}{job("a")}{job("b")}{message}', connected="s>a g>b", beside=SHARED),
        {"order": None},
        start="g",
    )
    (incident,) = played.incidents.values()
    assert incident.node_id == "p"
    assert played.send(VariablesSet(1, {"order": 42}))
    assert played.retry()
    assert played.waits == ["ns", "b"]


def test_a_thrown_signal_carries_only_the_variables_of_its_input_mappings() -> None:
    inputs = '<zeebe:ioMapping><zeebe:input source="=order" target="of"/></zeebe:ioMapping>'
    mapping = f"<extensionElements>{inputs}</extensionElements>"
    played = Played(
        definition(
            f'<startEvent id="s"/><intermediateThrowEvent id="i">{mapping}<signalEventDefinition signalRef="g"/>'
            '</intermediateThrowEvent><endEvent id="e"><signalEventDefinition signalRef="g"/></endEvent>',
            connected="s>i i>e",
            beside=SHARED,
        ),
        {"order": 42},
    )
    assert [(thrown.name, thrown.variables) for thrown in played.thrown] == [("stop", {"of": 42}), ("stop", {})]
    assert played.ended


def test_a_message_starts_a_process_with_any_key() -> None:
    start = '<startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent>'
    opened = opened_at_deployment(definition(start, beside=SHARED), now=NOW)
    assert opened == (MessageOpened(0, "s", "paid", ""),)


def test_an_empty_text_as_a_time_is_reported_as_empty() -> None:
    wait = f'<intermediateCatchEvent id="w">{timer("timeDuration", "=delay")}</intermediateCatchEvent>'
    played = Played(definition(f'<startEvent id="s"/>{wait}', connected="s>w"), {"delay": ""})
    (incident,) = played.incidents.values()
    found = "(the variable 'delay' of the process p is a text)"
    assert incident.sentence == f"the time of w is an empty text {found}; correct the variable or the model"
