"""Test that Postgres can store each accepted payload, and that all other payloads are refused."""

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock.jsonb import DEPTH_MAX
from shardclock_server.timers.payload import PAYLOAD_BYTES_MAX, parse_payload, payload_of
from shardclock_server.timers.refusal import InvalidTimer, shortened

ANY_TEXT = st.text(st.characters(codec=None))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda values: st.lists(values) | st.dictionaries(ANY_TEXT, values),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ('{ "order" : 123,\n"paid": false }', '{"order":123,"paid":false}'),
        (b'"caf\xc3\xa9"', '"café"'),
        ('"\\u00e9\\ud83d\\ude00"', '"é😀"'),
        ("null", "null"),
        ("[1.5, -0, 1e300, 5e-324]", "[1.5,0,1e+300,5e-324]"),
        ("0e-999999", "0.0"),
        ("9" * 308, "9" * 308),
        ('"\\\\u0000"', '"\\\\u0000"'),
        ('"' + "[" * 200 + '"', '"' + "[" * 200 + '"'),
        ("[" * DEPTH_MAX + "]" * DEPTH_MAX, "[" * DEPTH_MAX + "]" * DEPTH_MAX),
    ],
    ids=shortened,
)
def test_a_payload_is_stored_compact(text: str | bytes, stored: str) -> None:
    assert parse_payload(text) == stored


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "is not JSON: expecting value, at character 1"),
        ("{", "is not JSON"),
        ("{} {}", "is not JSON: extra data"),
        ('"\0"', "is not JSON"),
        ("\0", "is not JSON"),
        (b"\xff", "is not valid UTF-8"),
        ("[NaN]", "contains NaN, which is no JSON number"),
        ("-Infinity", "contains -Infinity, which is no JSON number"),
        ('{"a":1e200000}', "contains the number '1e200000', which a double can't represent"),
        ("1e-200000", "contains the number '1e-200000', which a double can't represent"),
        ("-1e400", "which a double can't represent"),
        ("-" + "9" * 309, "which a double can't represent"),
        ("9" * 60_000, "which a double can't represent"),
        ('"\\u0000"', "contains a NUL character"),
        ('{"a\\\\\\u0000":1}', "contains a NUL character"),
        ('"\\ud800"', "contains half of a surrogate pair"),
        ('"\ud800"', "contains half of a surrogate pair"),
        ('{"\\udc00":1}', "contains half of a surrogate pair"),
        ('{"a":1,"a":2}', "has the key 'a' twice"),
        ("[" * 101 + "]" * 101, "is nested deeper than 100 levels"),
        ('{"a":' * 101 + "1" + "}" * 101, "is nested deeper than 100 levels"),
        ("[" * 60_000, "is nested deeper than 100 levels"),
        ("[" * 30_000 + "]" * 30_000, "is nested deeper than 100 levels"),
        (json.dumps("x" * PAYLOAD_BYTES_MAX), "is longer than 65,536 bytes"),
        (json.dumps("é" * 33_000, ensure_ascii=False), "is longer than 65,536 bytes"),
        # jsonb's text of these values is longer than the input, because it has spaces after commas, and no exponents.
        (json.dumps([1] * 30_000, separators=(",", ":")), "is longer than 65,536 bytes"),
        ("[" + ",".join(["1e15"] * 12_000) + "]", "is longer than 65,536 bytes"),
        ("[" + ",".join(["5e-324"] * 300) + "]", "is longer than 65,536 bytes"),
    ],
    ids=shortened,
)
def test_a_payload_that_postgres_can_not_store_is_refused(text: str | bytes, rule: str) -> None:
    with pytest.raises(InvalidTimer) as refused:
        parse_payload(text)

    assert rule in str(refused.value)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    "text",
    [
        json.dumps("x" * (PAYLOAD_BYTES_MAX - 2)),
        "[" + ",".join(["1"] * 21_845) + "]",  # 65,535 bytes as jsonb
        "[" + ",".join(["1e+300"] * 216) + "]",  # 65,448 bytes as jsonb
    ],
    ids=shortened,
)
def test_a_payload_of_64_kib_as_jsonb_is_accepted(text: str) -> None:
    assert parse_payload(text) == text


@pytest.mark.parametrize(
    "value",
    [float("nan"), object(), {1, 2}, [b"x"], 10**5_000, 10**309, "\ud800", "\0"],
    ids=shortened,
)
def test_a_value_without_a_form_in_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidTimer):
        payload_of(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)

    with pytest.raises(InvalidTimer):
        payload_of(value)


@pytest.mark.parametrize(
    "text",
    [
        "{" + ",".join(f'"{number}":1' for number in range(7_000)) + ',"6999":1}',
        '"' + '\\"' * 32_000,
        "[" + "[]," * 20_000 + "[]]",
        "[" + '"[",' * 16_000 + "[" * 101 + "]" * 102,
        "0." + "1" * 65_000,
    ],
    ids=shortened,
)
def test_hostile_payloads_are_read_in_one_pass(text: str) -> None:
    started = time.process_time()

    with suppress(InvalidTimer):
        parse_payload(text)

    assert (
        time.process_time() - started < 1.5
        # some hundredths of a second on a busy machine; an algorithm with quadratic time takes many seconds
    )


@given(text=ANY_TEXT | st.binary() | JSON_VALUES.map(json.dumps))
def test_any_text_is_stored_as_the_same_value_or_refused_in_one_line(text: str | bytes) -> None:
    try:
        stored = parse_payload(text)
    except InvalidTimer as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - either outcome is right
    else:
        assert json.loads(stored) == json.loads(text)
        assert parse_payload(stored) == stored


@given(value=JSON_VALUES)
def test_any_value_is_stored_as_itself_or_refused_in_one_line(value: object) -> None:
    try:
        stored = payload_of(value)
    except InvalidTimer as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - either outcome is right
    else:
        assert json.loads(stored) == value
