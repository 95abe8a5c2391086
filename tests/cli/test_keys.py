"""The commands about keys list, add, rotate and revoke keys; a refused command stores nothing."""

from __future__ import annotations

import re

from shardclock.api.refusals.tenants import KEY_NOT_LIVE, KEYS_FULL, UNKNOWN_KEY
from tests.support.cli_asserts import DONE, assert_code, assert_refused
from tests.support.program import Shell

KEY = re.compile(r"sck_([a-z2-7]{8})_[A-Za-z0-9_-]{43}")


def prefix_of(printed: str) -> str:
    """Return the prefix of a printed key."""
    found = KEY.fullmatch(printed.strip())
    assert found, printed
    return found[1]


def test_a_new_key_is_printed_once_and_listed_without_its_secret(shell: Shell) -> None:
    added = shell("keys", "add", "webshop", "--tenant", "acme", "--scope", "write", "--scope", "read")

    assert added.code == DONE
    prefix = prefix_of(added.out)
    assert added.err == (
        f"key {prefix} ('webshop') of tenant 'acme' is made; the caller sends this text, which is not shown again:\n"
    )
    (listed,) = shell("keys", "--json").json["keys"]
    assert (listed["prefix"], listed["tenant_id"], listed["name"]) == (prefix, "acme", "webshop")
    assert (listed["scopes"], listed["expires_at"], listed["revoked_at"]) == (["read", "write"], None, None)
    assert KEY.search(shell("keys", "--json").out + shell("keys").out) is None
    assert shell("keys").out.splitlines()[1].split()[:5] == [prefix, "acme", "webshop", "read,", "write"]


def test_a_key_belongs_to_the_default_tenant_and_an_operator_s_key_to_all_tenants(shell: Shell) -> None:
    assert shell("keys").err == "there are no keys; add a key with `shardclock keys add NAME --scope read`\n"
    shell("keys", "add", "mine", "--scope", "read")
    shell("keys", "add", "on-call", "--scope", "admin", "--all-tenants")

    assert [(it["name"], it["tenant_id"]) for it in shell("keys", "--json").json["keys"]] == [
        ("on-call", None), ("mine", "default"),
    ]  # fmt: skip
    assert [it["name"] for it in shell("keys", "--tenant", "default", "--json").json["keys"]] == ["mine"]
    assert [it["name"] for it in shell("keys", "--limit", 1, "--json").json["keys"]] == ["on-call"]
    assert shell("keys").out.splitlines()[1].split()[1] == "(all)"


def test_a_new_key_is_printed_as_json_for_programs(shell: Shell) -> None:
    added = shell("keys", "add", "webshop", "--scope", "read", "--expires", "12h", "--json")

    assert (added.code, added.err) == (DONE, "")
    assert added.json["prefix"] == prefix_of(added.json["key"])
    made = r"key \w+ \('webshop'\) of tenant 'default' is made, and expires at \S+Z"
    assert added.json["done"] is True
    assert re.fullmatch(made, added.json["message"])


def test_a_wrong_value_is_refused_in_a_sentence_and_stores_nothing(shell: Shell) -> None:
    for wrong, sentence in (
        (["webshop"], "a key without a scope could do nothing: give it one"),
        (["webshop", "--scope", "read", "--tenant", "a", "--all-tenants"], "give either --tenant or --all-tenants"),
        (["webshop", "--scope", "read", "--expires", "soon"], "--expires 'soon' is not a length of time"),
    ):
        assert_refused(shell("keys", "add", *wrong), sentence)
    for verb, code in (("rotate", KEY_NOT_LIVE), ("revoke", UNKNOWN_KEY)):
        assert_code(shell("keys", verb, "zzzzzzzz", "--json"), code)
    assert shell("keys", "--json").json["keys"] == []


def test_a_rotation_prints_a_second_key_and_the_first_expires(shell: Shell) -> None:
    old = prefix_of(shell("keys", "add", "webshop", "--scope", "write").out)

    rotated = shell("keys", "rotate", old, "--overlap", "2h", "--expires", "P90D")

    new = prefix_of(rotated.out)
    assert rotated.code == DONE
    assert f"; the old one, {old}, expires at " in rotated.err
    assert rotated.err.endswith("; the caller sends this text, which is not shown again:\n")
    listed = {it["prefix"]: it for it in shell("keys", "--json").json["keys"]}
    assert listed.keys() == {old, new}
    assert (listed[new]["name"], listed[new]["scopes"]) == ("webshop", ["write"])
    assert listed[old]["expires_at"] < listed[new]["expires_at"]
    assert_code(shell("keys", "rotate", new, "--json"), KEYS_FULL)
