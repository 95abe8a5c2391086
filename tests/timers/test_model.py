"""Test that a request for a timer is checked as a whole, and refused in one sentence."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from shardclock_server.timers.duration import Duration
from shardclock_server.timers.model import LINE_BYTES_MAX, SLOTS, NewTimer, TimerType, slot_of
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.schedule import Missed
from tests.support.counted_calls import calls_of

ANY_TEXT = st.text(st.characters(codec=None))
ANY_VALUE = st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.lists(st.none())


def test_a_line_with_only_a_delay_gets_the_defaults() -> None:
    timer = NewTimer.from_line('{"delay":"PT15M"}')

    assert timer.delay == Duration(0, 0, timedelta(minutes=15))
    assert (timer.tenant_id, timer.target, timer.zone) == ("default", "log", "UTC")
    assert timer.timer_type is TimerType.USER
    assert (timer.name, timer.payload, timer.due_date, timer.schedule) == (None, None, None, None)


def test_a_line_carries_every_field() -> None:
    line = json.dumps(
        {
            "due_date": "2026-01-31T09:00:00+01:00",
            "name": "order-123",
            "tenant_id": "acme",
            "timer_type": "BOUNDARY",
            "target": "log",
            "target_element_id": "Event_1",
            "process_instance_key": 1,
            "element_instance_key": 9_223_372_036_854_775_807,
            "zone": "UTC",
            "payload": {"order": 123},
        }
    ).encode()

    timer = NewTimer.from_line(line)

    assert timer.due_date == datetime(2026, 1, 31, 8, tzinfo=UTC)
    assert timer.timer_type is TimerType.BOUNDARY
    assert timer.payload == '{"order":123}'
    assert timer.element_instance_key == 9_223_372_036_854_775_807


@pytest.mark.parametrize("text", ["R-1/PT0,5H", "R/pt1h", " 0  8 * * mon ", "@Daily"])
def test_a_schedule_is_kept_as_it_was_written(text: str) -> None:
    assert NewTimer.from_fields({"schedule": text}).schedule == text


@pytest.mark.parametrize(
    ("fields", "schedule", "zone"),
    [
        ({"schedule": "R/P1D", "zone": "Europe/Berlin"}, "R/P1D", "Europe/Berlin"),
        ({"schedule": "0 8 * * mon-fri", "zone": "Europe/Berlin"}, "0 8 * * mon-fri", "Europe/Berlin"),
        (
            {"schedule": "R/2026-07-31T08:00/P1D", "zone": "Europe/Berlin"},
            "R/2026-07-31T08:00/P1D",
            "Europe/Berlin",
        ),
        (
            {"schedule": "R/2026-07-31T08:00[Europe/Berlin]/P1D"},
            "R/2026-07-31T08:00[Europe/Berlin]/P1D",
            "Europe/Berlin",
        ),
        (
            {"schedule": "R/2026-07-31T08:00[Europe/Berlin]/P1D", "zone": "UTC"},
            "R/2026-07-31T08:00[Europe/Berlin]/P1D",
            "Europe/Berlin",
        ),
    ],
)
def test_a_timer_takes_the_zone_of_its_schedule(fields: dict[str, object], schedule: str, zone: str) -> None:
    timer = NewTimer.from_fields(fields)

    assert (timer.schedule, timer.zone, timer.missed) == (schedule, zone, Missed.FIRE_ONCE)


@pytest.mark.parametrize(
    "fields",
    [
        {"due_date": "2026-07-31T08:00", "zone": "Europe/Berlin"},
        {"due_date": "2026-07-31T08:00[Europe/Berlin]"},
        {"due_date": "2026-07-31T08:00+02:00[Europe/Berlin]", "zone": "Europe/Berlin"},
        {"due_date": "2026-07-31T02:00-04:00", "zone": "Europe/Berlin"},
    ],
)
def test_a_due_date_may_be_a_local_time(fields: dict[str, object]) -> None:
    timer = NewTimer.from_fields(fields)

    assert timer.due_date == datetime(2026, 7, 31, 6, tzinfo=UTC)
    assert timer.zone == "Europe/Berlin"


@pytest.mark.parametrize("missed", list(Missed))
def test_a_schedule_has_a_policy_for_missed_occurrences(missed: Missed) -> None:
    assert NewTimer.from_fields({"schedule": "R/P1D", "missed": str(missed)}).missed is missed


def test_a_checked_timer_is_immutable() -> None:
    timer = NewTimer.from_fields({"delay": "PT1S"})

    with pytest.raises(ValidationError):
        timer.name = "another"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "give exactly one of due_date, delay and schedule, not 0"),
        (
            {"delay": "PT1S", "due_date": "2026-01-31T08:00:00Z"},
            "give exactly one of due_date, delay and schedule, not 2",
        ),
        ({"delay": "PT"}, "delay 'PT' is not an ISO 8601 duration"),
        ({"delay": 5}, "delay 5 is refused: it must be an ISO 8601 duration, as text such as PT15M"),
        ({"due_date": 1_769_846_400}, "due_date 1769846400 is refused: it must be an ISO 8601 date-time"),
        ({"schedule": "R-2/PT1S"}, "schedule 'R-2/PT1S' has the count -2"),
        ({"schedule": ["R/PT1S"]}, "schedule […] is refused: it must be an ISO 8601 repeat or cron"),
        ({"name": ""}, "name '' is refused: it must be 1 to 200 characters"),
        ({"name": "x" * 201}, "… is refused: it must be 1 to 200 characters"),
        ({"name": "a\0"}, "name 'a\\x00' is refused"),
        ({"name": "a\n"}, "name 'a\\n' is refused"),
        ({"name": "a\x9f"}, "name 'a\\x9f' is refused"),
        ({"name": "\ud800"}, "name '\\ud800' is refused"),
        ({"name": 5}, "name 5 is refused"),
        ({"tenant_id": None}, "tenant_id null is refused"),
        ({"tenant_id": ""}, "tenant_id '' is refused"),
        ({"timer_type": "OTHER"}, "timer_type 'OTHER' is refused: it must be one of BOUNDARY, INTERMEDIATE"),
        ({"timer_type": 1}, "timer_type 1 is refused"),
        ({"target": ""}, "target '' is refused: it must be log, a handler that an app has declared, or webhook:NAME"),
        ({"zone": "localtime"}, "zone 'localtime' is not an IANA time zone; write one such as UTC or Europe/Berlin"),
        ({"zone": None}, "zone null is refused: it must be an IANA time zone, as text such as Europe/Berlin"),
        ({"zone": 1}, "zone 1 is refused: it must be an IANA time zone"),
        ({"zone": "Mars", "due_date": "2026-01-31T08:00[Mars]"}, "zone 'Mars' is not an IANA time zone"),
        ({"due_date": "2026-01-31T08:00"}, "due_date '2026-01-31T08:00' has no offset from UTC"),
        ({"due_date": "2026-01-31T08:00", "zone": "UTC"}, "due_date '2026-01-31T08:00' has no offset from UTC"),
        ({"due_date": "2026-01-31T08:00[UTC]", "zone": "Asia/Tokyo"}, "names the time zone UTC, but its zone is Asia"),
        ({"schedule": "R/2026-01-31T08:00[UTC]/P1D", "zone": "Asia/Tokyo"}, "names the time zone UTC, but its zone is"),
        ({"schedule": "R/2026-01-31T08:00/P1D"}, "schedule 'R/2026-01-31T08:00/P1D' has no valid start or end"),
        (
            {"missed": "skip"},
            "missed 'skip' needs a schedule: leave it out",
        ),
        ({"missed": "later", "schedule": "R/P1D"}, "missed 'later' is refused: it must be one of fire_once, fire_all"),
        ({"missed": 1, "schedule": "R/P1D"}, "missed 1 is refused"),
        ({"process_instance_key": True}, "process_instance_key true is refused: it must be a whole number"),
        ({"process_instance_key": "1"}, "process_instance_key '1' is refused"),
        ({"process_instance_key": 1.0}, "process_instance_key 1.0 is refused"),
        ({"process_instance_key": 0}, "process_instance_key 0 is refused"),
        ({"element_instance_key": 2**63}, "element_instance_key 9223372036854775808 is refused"),
        ({"element_instance_key": 10**5_000}, "element_instance_key an integer of over 50 digits is refused"),
        ({"payload": "\0"}, "payload '\"\\\\u0000\"' contains a NUL character"),
        ({"slot": 5}, "'slot' is not a field of a timer; the fields are zone, due_date, delay, schedule, missed"),
        ({"\ud800": 5}, "is not an object of a timer's fields"),
    ],
    ids=shortened,
)
def test_a_field_at_fault_is_named_with_its_value_and_rule(fields: dict[str, object], sentence: str) -> None:
    valid = {} if {"due_date", "delay", "schedule"} & fields.keys() or not fields else {"delay": "PT1S"}

    with pytest.raises(InvalidTimer) as refused:
        NewTimer.from_fields(valid | fields)

    assert sentence in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "line '' is not JSON: expecting value, at character 1"),
        ("[]", "line '[]' is not a JSON object"),
        ('{"delay":"PT1S"', "is not JSON"),
        ('{"delay":"PT1S","delay":"PT2S"}', "has the key 'delay' twice; write each key once"),
        (b'{"name":"\xff"}', "is not valid UTF-8"),
        ('\ufeff{"delay":"PT1S"}', "line '\\ufeff{"),
        ('{"delay":"PT1S","payload":NaN}', "contains NaN, which is no JSON number"),
        ('{"delay":"PT1S","process_instance_key":' + "9" * 5_000 + "}", "which a double can't represent"),
        ("[" * 100_000, "is nested deeper than 100 levels"),
        (" " * (LINE_BYTES_MAX + 1), "is longer than 131,072 bytes"),
        ("é" * (LINE_BYTES_MAX // 2 + 1), "is longer than 131,072 bytes"),
    ],
    ids=shortened,
)
def test_a_line_that_is_not_a_json_object_is_refused(line: str | bytes, sentence: str) -> None:
    with pytest.raises(InvalidTimer) as refused:
        NewTimer.from_line(line)

    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_slot_is_the_key_modulo_840() -> None:
    assert [slot_of(key) for key in (1, SLOTS - 1, SLOTS, SLOTS + 1)] == [1, 839, 0, 1]


@given(value=ANY_VALUE | st.binary() | st.dictionaries(ANY_TEXT, ANY_TEXT))
def test_a_shown_value_is_short_and_printable(value: object) -> None:
    assert shortened(value).isprintable()
    assert len(shortened(value)) <= 60


FIELDS = st.dictionaries(st.sampled_from(list(NewTimer.model_fields)) | ANY_TEXT, ANY_VALUE)


@given(line=ANY_TEXT | st.binary() | FIELDS.map(json.dumps) | FIELDS.map(json.dumps).map(str.encode))
@example(line='{"delay":"PT1S"}')
def test_any_line_is_a_timer_or_refused_in_one_line(line: str | bytes) -> None:
    try:
        timer = NewTimer.from_line(line)
    except InvalidTimer as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - either outcome is right
    else:
        assert timer.tenant_id


@given(fields=FIELDS)
def test_any_fields_are_a_timer_or_refused_in_one_line(fields: dict[str, object]) -> None:
    try:
        NewTimer.from_fields(fields)
    except InvalidTimer as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - either outcome is right


def test_the_check_of_a_line_calls_few_functions() -> None:
    line = b'{"delay":"PT15M","name":"order-123","tenant_id":"acme","payload":{"order":123}}'

    assert calls_of(lambda: NewTimer.from_line(line)) <= 120  # 70 calls; 96 calls for the first line
