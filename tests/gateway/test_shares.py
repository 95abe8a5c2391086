"""Test for each resource in the table of limits that a tenant which floods the gateway gets only its share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gateways import Api
from tests.support.tenant_floods import ELSEWHERE, FLOODS, rows_of_table

ROOT = Path(__file__).parents[2]


def test_each_resource_in_the_table_of_limits_has_a_flood_test() -> None:
    assert sorted(rows_of_table()) == sorted([*FLOODS, *ELSEWHERE])


@pytest.mark.parametrize("test", ELSEWHERE.values(), ids=str)
def test_each_flood_test_in_another_file_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("resource", FLOODS)
async def test_while_one_tenant_floods_a_resource_another_tenant_is_served(resource: str, dsn: str) -> None:
    await FLOODS[resource](dsn)


async def test_an_explanation_of_a_moment_after_more_than_a_year_uses_the_slot_of_a_preview(api: Api) -> None:
    await api.post("/v1/timers", {"schedule": "0 0 29 2 *", "name": "leap"})
    path = "/v1/timers/by-name/leap/explanation"
    for _ in range(6):
        api.gateway.previews.limit.acquire("default")
    assert (await api.get(path)).status == 200
    (await api.get(f"{path}?at=9000-01-01T00:00:00Z")).assert_problem(
        "over_quota", 429, "preview schedules here already"
    )

    api.gateway.previews.limit.release("default")
    assert (await api.get(f"{path}?at=9000-01-01T00:00:00Z")).status == 200
