"""Prove that what is recorded of a verb is bounded JSON, and has no value that is not known to be harmless."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shardclock.jsonb import has_nul
from shardclock_server.service.audit import SHOWN, WHAT_BYTES_MAX, WITHHELD, shown

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text() | st.sampled_from(sorted(SHOWN)), inner),
    max_leaves=15,
)


def test_what_was_given_is_recorded_and_what_was_not_is_left_out() -> None:
    fields = {"name": "billing", "reason": None, "force": False, "limit": 0, "policy": {"rate_per_s": 2.5}}

    assert shown(fields) == {"name": "billing", "limit": 0, "policy": {"rate_per_s": 2.5}}


@pytest.mark.parametrize("field", ["secret", "headers", "header", "url", "config", "payload", "colour"])
def test_of_a_field_that_is_not_known_to_be_harmless_only_the_name_is_recorded(field: str) -> None:
    for value in ("hunter2", 7, ["hunter2"], {"name": "hunter2"}):
        assert shown({field: value, "policy": {field: value}}) == {field: WITHHELD, "policy": {field: WITHHELD}}


def test_a_processs_token_is_a_number_and_shown_and_a_bulk_changes_token_is_a_text_and_is_not() -> None:
    assert shown({"instance_key": 200062, "token": 4}) == {"instance_key": 200062, "token": 4}
    for value in ("hunter2", ["hunter2"], {"name": "hunter2"}):
        assert shown({"token": value}) == {"token": WITHHELD}


def test_long_texts_lists_and_objects_are_cut() -> None:
    found = shown({"reason": "x" * 1_000, "scopes": ["read"] * 100, **{f"field {n}": 1 for n in range(100)}})

    assert found["reason"] == "x" * 200 + WITHHELD
    assert len(found["scopes"]) == 20
    assert len(found) == 40


def test_of_what_is_too_long_in_all_only_the_names_are_recorded() -> None:
    many = {"filter": {name: ["ä" * 200] * 20 for name in ("name", "target", "reason", "group")}}

    assert shown(many) == {"filter": WITHHELD}


def test_names_that_are_long_and_odd_are_short_and_plain() -> None:
    assert shown({"\U0001f550" * 100: 1}) == {"?" * 60 + "…": WITHHELD}
    assert len(json.dumps(shown({"\U0001f550" * 100 + str(n): 1 for n in range(100)}))) <= WHAT_BYTES_MAX


def test_what_is_nested_too_deep_ends_somewhere() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"filter": nested}

    assert json.dumps(shown(nested)).count("filter") == 4


@settings(max_examples=50)
@given(st.dictionaries(st.text() | st.sampled_from(sorted(SHOWN)), JSON))
@example({"name": "a\0b"})
@example({"policy": {"\\u0000": True}})  # a backslash and five characters, not a NUL
def test_whatever_is_asked_for_it_is_json_that_postgres_takes(fields: dict[str, Any]) -> None:
    written = json.dumps(shown(fields), allow_nan=False)

    assert len(written) <= WHAT_BYTES_MAX
    assert not has_nul(written)
    json.dumps(shown(fields), ensure_ascii=False).encode()  # which fails for half a surrogate pair
