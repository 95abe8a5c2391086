"""Test the setting that gives groups their scopes and tenants."""

from __future__ import annotations

import re

import pytest

from shardclock_server.gateway.oidc.grants import Access, GroupGrants, read_grants

OPS = Access(None, ("read",))


@pytest.mark.parametrize(
    ("text", "groups", "tenant", "access"),
    [
        ("ops=read@*", ["ops"], None, OPS),
        ("ops=read@*", ["ops"], "shop", OPS),
        ("ops=read@*", ["dev"], None, None),
        ("ops=write,read@shop", ["ops"], None, Access("shop", ("read", "write"))),
        ("ops=read@shop", ["ops"], "ada", None),
        ("a=read@shop; b=write@shop", ["a", "b"], None, Access("shop", ("read", "write"))),
        ("a=read@shop; b=write@ada", ["a", "b"], None, Access("shop", ("read",))),
        ("a=read@shop; b=write@ada", ["a", "b"], "ada", Access("ada", ("write",))),
        # A grant for all tenants applies, unless the tenant's own grant has more rights.
        ("a=read@*; b=write@shop", ["a", "b"], "shop", Access("shop", ("write",))),
        ("a=operate@*; b=write@shop", ["a", "b"], "shop", Access(None, ("operate",))),
        ("a=read@*; b=read@shop", ["a", "b"], "shop", OPS),
        (
            "cn=ops,ou=it = read @ shop of ada \n\n dev=read@*;",
            ["cn=ops,ou=it"],
            None,
            Access("shop of ada", ("read",)),
        ),
    ],
)
def test_the_groups_of_a_person_give_the_access_to_a_tenant(
    text: str, groups: list[str], tenant: str | None, access: Access | None
) -> None:
    assert GroupGrants(read_grants(text)).access_of(groups, tenant) == access


def test_only_groups_of_the_setting_are_known_and_they_have_their_tenants_in_its_order() -> None:
    grants = GroupGrants(read_grants("a=read@shop; b=write@ada; a=write@shop; c=read@*"))

    assert grants.known({"b", "a", "x"}) == ("a", "b")
    assert grants.tenants_of({"b", "a"}) == ("shop", "ada")
    assert grants.tenants_of({"a", "c"}) is None
    assert grants.tenants_of({"x"}) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" ; ", ["0 entries", "ops=operate@*"]),
        ("ops", ["'ops' is not written as", "ops=operate@*"]),
        ("ops=read", ["'ops=read' is not written as"]),
        ("=read@shop", ["'=read@shop' is not written as"]),
        ("ops=@shop", ["unknown scope ''", "read, write, operate, admin"]),
        ("ops=read,root@shop", ["unknown scope 'root'"]),
        ("ops=read@", ["names no tenant"]),
        ("ops=read@" + "x" * 201, ["names no tenant"]),
        (";".join(f"g{i}=read@*" for i in range(1_001)), ["1,001 entries"]),
    ],
)
def test_a_wrong_entry_is_refused_in_one_sentence(text: str, words: list[str]) -> None:
    with pytest.raises(ValueError, match=re.escape(words[0])) as refused:
        read_grants(text)

    for word in words:
        assert word in str(refused.value)
    assert "\n" not in str(refused.value)
