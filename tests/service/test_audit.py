"""The audit stores a request as JSON of limited size, and stores the values of harmless fields only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardclock.jsonb import has_nul
from shardclock_server.service.audit import RECORDED_FIELDS, WHAT_BYTES_MAX, WITHHELD, recorded_fields

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.text() | st.sampled_from(sorted(RECORDED_FIELDS)), inner)
    ),
    max_leaves=15,
)


def test_given_fields_are_recorded_and_missing_ones_are_left_out() -> None:
    fields = {"name": "billing", "reason": None, "force": False, "limit": 0, "policy": {"rate_per_s": 2.5}}

    assert recorded_fields(fields) == {"name": "billing", "limit": 0, "policy": {"rate_per_s": 2.5}}


@pytest.mark.parametrize("field", ["secret", "headers", "header", "url", "config", "payload", "colour"])
def test_of_a_field_that_may_be_secret_only_the_name_is_recorded(field: str) -> None:
    for value in ("hunter2", 7, ["hunter2"], {"name": "hunter2"}):
        assert recorded_fields({field: value, "policy": {field: value}}) == {
            field: WITHHELD,
            "policy": {field: WITHHELD},
        }


def test_the_token_of_a_process_is_recorded_and_the_token_of_a_bulk_change_is_withheld() -> None:
    assert recorded_fields({"instance_key": 200062, "token": 4}) == {"instance_key": 200062, "token": 4}
    for value in ("hunter2", ["hunter2"], {"name": "hunter2"}):
        assert recorded_fields({"token": value}) == {"token": WITHHELD}


def test_long_texts_lists_and_objects_are_cut() -> None:
    found = recorded_fields({"reason": "x" * 1_000, "scopes": ["read"] * 100, **{f"field {n}": 1 for n in range(100)}})

    assert found["reason"] == "x" * 200 + WITHHELD
    assert len(found["scopes"]) == 20
    assert len(found) == 40


def test_of_a_request_that_is_too_long_only_the_names_of_the_fields_are_recorded() -> None:
    many = {"filter": {name: ["ä" * 200] * 20 for name in ("name", "target", "reason", "group")}}

    assert recorded_fields(many) == {"filter": WITHHELD}


def test_long_names_are_cut_and_odd_characters_are_replaced() -> None:
    assert recorded_fields({"\U0001f550" * 100: 1}) == {"?" * 60 + "…": WITHHELD}
    assert len(json.dumps(recorded_fields({"\U0001f550" * 100 + str(n): 1 for n in range(100)}))) <= WHAT_BYTES_MAX


def test_deep_nesting_is_cut() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"filter": nested}

    assert json.dumps(recorded_fields(nested)).count("filter") == 4


@given(st.dictionaries(st.text() | st.sampled_from(sorted(RECORDED_FIELDS)), JSON))
@example({"name": "a\0b"})
@example({"policy": {"\\u0000": True}})  # a backslash and five characters, not a NUL
def test_any_request_becomes_json_that_postgres_accepts(fields: dict[str, Any]) -> None:
    written = json.dumps(recorded_fields(fields), allow_nan=False)

    assert len(written) <= WHAT_BYTES_MAX
    assert not has_nul(written)
    json.dumps(recorded_fields(fields), ensure_ascii=False).encode()  # this call fails on half of a surrogate pair
