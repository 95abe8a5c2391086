"""Prove for each resource of the table of all bounds: one tenant's flood takes no more than its share of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gateways import Api
from tests.support.tenant_floods import ELSEWHERE, FLOODS, rows_of_table

ROOT = Path(__file__).parents[2]


def test_each_row_of_the_table_has_a_flood_and_each_flood_a_row() -> None:
    assert sorted(rows_of_table()) == sorted([*FLOODS, *ELSEWHERE])


@pytest.mark.parametrize("test", ELSEWHERE.values(), ids=str)
def test_a_flood_that_another_file_holds_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("resource", FLOODS)
async def test_while_one_tenant_floods_a_resource_another_one_is_answered(resource: str, dsn: str) -> None:
    await FLOODS[resource](dsn)


async def test_an_explanation_of_a_moment_beyond_a_year_takes_the_place_of_a_preview(api: Api) -> None:
    await api.post("/v1/timers", {"schedule": "0 0 29 2 *", "name": "leap"})
    path = "/v1/timers/by-name/leap/explanation"
    for _ in range(6):
        api.gateway.previews.places.take("default")
    assert (await api.get(path)).status == 200
    (await api.get(f"{path}?at=9000-01-01T00:00:00Z")).assert_problem(
        "over-quota", 429, "preview schedules here already"
    )

    api.gateway.previews.places.leave("default")
    assert (await api.get(f"{path}?at=9000-01-01T00:00:00Z")).status == 200
