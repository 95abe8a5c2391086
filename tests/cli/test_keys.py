"""Prove that commands list, add, rotate and revoke keys, and that what is wrong stores nothing."""

from __future__ import annotations

import re

import pytest

from tests.support.cli_asserts import BAD_INPUT, DONE, assert_refused
from tests.support.program import Shell

KEY = re.compile(r"sck_([a-z2-7]{8})_[A-Za-z0-9_-]{43}")


def prefix_of(printed: str) -> str:
    """Read the prefix of a key that was printed alone."""
    found = KEY.fullmatch(printed.strip())
    assert found, printed
    return found[1]


def test_a_new_one_is_printed_once_and_listed_without_its_secret(shell: Shell) -> None:
    added = shell("keys", "add", "webshop", "--tenant", "acme", "--scope", "write", "--scope", "read")

    assert added.code == DONE
    prefix = prefix_of(added.out)
    assert added.err == (
        f"key {prefix} ('webshop') of tenant 'acme' is made; its caller sends this text, which is not shown again:\n"
    )
    (listed,) = shell("keys", "--json").json
    assert (listed["prefix"], listed["tenant_id"], listed["name"]) == (prefix, "acme", "webshop")
    assert (listed["scopes"], listed["expires_at"], listed["revoked_at"]) == (["read", "write"], None, None)
    assert KEY.search(shell("keys", "--json").out + shell("keys").out) is None
    assert shell("keys").out.splitlines()[1].split()[:5] == [prefix, "acme", "webshop", "read,", "write"]


def test_without_a_tenant_it_is_the_default_one_s_and_an_operator_s_is_for_all(shell: Shell) -> None:
    assert shell("keys").err == "there are no keys; `shardclock keys add NAME --scope read` adds one\n"
    shell("keys", "add", "mine", "--scope", "read")
    shell("keys", "add", "on-call", "--scope", "admin", "--all-tenants")

    assert [(it["name"], it["tenant_id"]) for it in shell("keys", "--json").json] == [
        ("on-call", None), ("mine", "default"),
    ]  # fmt: skip
    assert [it["name"] for it in shell("keys", "--tenant", "default", "--json").json] == ["mine"]
    assert [it["name"] for it in shell("keys", "--limit", 1, "--json").json] == ["on-call"]
    assert shell("keys").out.splitlines()[1].split()[1] == "(all)"


def test_a_program_gets_the_key_as_json(shell: Shell) -> None:
    added = shell("keys", "add", "webshop", "--scope", "read", "--expires", "12h", "--json")

    assert (added.code, added.err) == (DONE, "")
    assert added.json["prefix"] == prefix_of(added.json["key"])
    assert re.fullmatch(r"key \w+ \('webshop'\) of tenant 'default' is made, and expires at \S+Z", added.json["done"])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["webshop"], "a key without a scope could do nothing: give it one"),
        (["", "--scope", "read"], "name '' of a key is refused"),
        (["webshop", "--scope", "read", "--tenant", "a", "--all-tenants"], "give either --tenant or --all-tenants"),
        (["webshop", "--scope", "read", "--expires", "0s"], "a key that expires after PT0S is refused"),
        (["webshop", "--scope", "read", "--expires", "soon"], "--expires 'soon' is not a length of time"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence_and_stores_nothing(shell: Shell, wrong: list[str], sentence: str) -> None:
    assert_refused(shell("keys", "add", *wrong), sentence)
    assert shell("keys", "--json").json == []


def test_a_rotation_prints_a_second_key_and_the_first_expires(shell: Shell) -> None:
    old = prefix_of(shell("keys", "add", "webshop", "--scope", "write").out)

    rotated = shell("keys", "rotate", old, "--overlap", "2h", "--expires", "P90D")

    new = prefix_of(rotated.out)
    assert rotated.code == DONE
    assert f"; the old one, {old}, expires at " in rotated.err
    assert rotated.err.endswith("; its caller sends this text, which is not shown again:\n")
    listed = {it["prefix"]: it for it in shell("keys", "--json").json}
    assert listed.keys() == {old, new}
    assert (listed[new]["name"], listed[new]["scopes"]) == ("webshop", ["write"])
    assert listed[old]["expires_at"] < listed[new]["expires_at"]
    assert_refused(shell("keys", "rotate", new), "has 2 live keys with the name 'webshop'", "revoke one of them")


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
def test_a_prefix_that_no_key_has_is_refused_with_where_to_look(shell: Shell, verb: str) -> None:
    refused = shell("keys", verb, "zzzzzzzz")

    assert refused.code == BAD_INPUT
    assert refused.err.endswith("key has the prefix 'zzzzzzzz': `shardclock keys` lists them\n")
