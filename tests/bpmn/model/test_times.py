"""A model's times may have FEEL's notation or the notation of timers."""

from datetime import UTC, datetime

import pytest

from shardclock_server.bpmn.model import InvalidModel, read_model
from shardclock_server.bpmn.model.definition import TimerKind, TimerTrigger
from shardclock_server.bpmn.model.expressions import InvalidValue
from shardclock_server.bpmn.model.times import LONG_AGO, time_text
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.schedule import first_of, parse_schedule
from tests.support.bpmn import boundary, event_subprocess, job, model, timer


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("R5/2031-02-07T09:00:00@Europe/Paris/P2D", "R5/2031-02-07T09:00:00[Europe/Paris]/P2D"),
        ("R/2031-02-07T09:00@Asia/Kolkata/PT1H30M", "R/2031-02-07T09:00[Asia/Kolkata]/PT1H30M"),
        ("R/2031-02-07T09:00:00@America/Port-au-Prince/P1D", "R/2031-02-07T09:00:00[America/Port-au-Prince]/P1D"),
        (
            "R2/2031-02-07T09:00:00@America/Argentina/Buenos_Aires/p1d",
            "R2/2031-02-07T09:00:00[America/Argentina/Buenos_Aires]/p1d",
        ),
        ("R/2031-02-07T09:00:00.5@Etc/GMT+3/+P1D", "R/2031-02-07T09:00:00.5[Etc/GMT+3]/+P1D"),
        ("R/2031-02-07T09:00:00@PST8PDT/P1M", "R/2031-02-07T09:00:00[PST8PDT]/P1M"),
        ("R/2031-02-07T09:00:00@UTC/P1D", "R/2031-02-07T09:00:00[UTC]/P1D"),
        (
            "R/2031-02-07T09:00@Europe/Paris/2031-03-07T09:00@Europe/Paris",
            "R/2031-02-07T09:00[Europe/Paris]/2031-03-07T09:00[Europe/Paris]",
        ),
        ("R/P1D/2031-03-07T09:00:00@Europe/Paris", "R/P1D/2031-03-07T09:00:00[Europe/Paris]"),
        ("R/2031-02-07T09:00:00[Europe/Paris]/P1D", "R/2031-02-07T09:00:00[Europe/Paris]/P1D"),
        ("R/2031-10-26T02:30:00+01:00[Europe/Berlin]/P1D", "R/2031-10-26T02:30:00+01:00[Europe/Berlin]/P1D"),
        ("@daily", "@daily"),
        ("R/PT1H", "R/PT1H"),
    ],
)
def test_the_zone_of_a_cycle_is_read_after_an_at_or_in_brackets(written: str, spelled: str) -> None:
    assert time_text(TimerKind.CYCLE, written) == spelled
    assert first_of(parse_schedule(spelled), LONG_AGO)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("R/2031-02-07T09:00:00@Mars/Olympus/P1D", "'Mars/Olympus' is not an IANA time zone"),
        ("R/2031-02-07T09:00:00@/P1D", "has a zone after an @; write it in brackets"),
        ("R/2031-02-07T09:00:00@Europe/Paris", "has no valid period"),
    ],
)
def test_a_cycle_whose_zone_can_t_be_read_is_refused(written: str, says: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        time_text(TimerKind.CYCLE, written)
    assert says in str(refused.value)


@pytest.mark.parametrize("read", [parse_due_date, parse_schedule])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/Argentina/Buenos_Aires"])
def test_a_timer_refuses_a_zone_after_an_at(read: object, zone: str) -> None:
    moment = f"2031-02-07T09:00:00@{zone}"
    with pytest.raises(InvalidTimer) as refused:
        parse_due_date(moment) if read is parse_due_date else parse_schedule(f"R/{moment}/P1D")
    assert "has a zone after an @; write it in brackets, as in 2031-02-07T09:00:00[Europe/Berlin]" in str(refused.value)


AT_NINE = "2031-01-31T09:00:00@Europe/Paris"
CYCLES = [f"R5/{AT_NINE}/P2D", f'="R5/{AT_NINE}/P2D"', f'="R5/" + string(@"{AT_NINE}") + "/P2D"']


@pytest.mark.parametrize("cycle", CYCLES)
def test_each_event_with_a_cycle_accepts_its_zone_in_both_spellings(cycle: str) -> None:
    event = timer("timeCycle", cycle.replace('"', "&quot;"))
    elements = {
        "s": f'<startEvent id="s">{event}</startEvent><task id="t"/>',
        "b": f'<startEvent id="s"/>{job("a")}{boundary("b", "a", event, interrupts=False)}',
        "us": f'<startEvent id="s"/>{event_subprocess("u", event, interrupts=False)}',
    }
    for node_id, inside in elements.items():
        trigger = read_model(model(inside))[0].nodes[node_id].trigger
        assert isinstance(trigger, TimerTrigger)
        text = trigger.text
        value = text if isinstance(text, str) else text.evaluate({}, now=datetime(2031, 1, 1, tzinfo=UTC))
        assert time_text(TimerKind.CYCLE, str(value)) == "R5/2031-01-31T09:00:00[Europe/Paris]/P2D"


@pytest.mark.parametrize("kind", ["timeDate", "timeCycle"])
def test_an_unknown_zone_is_refused_at_the_deployment(kind: str) -> None:
    text = "2031-02-07T09:00:00@Mars/Olympus" if kind == "timeDate" else "R/2031-02-07T09:00:00@Mars/Olympus/P1D"
    with pytest.raises(InvalidModel, match="s: 'Mars/Olympus' is not an IANA time zone"):
        read_model(model(f'<startEvent id="s">{timer(kind, text)}</startEvent>'))
