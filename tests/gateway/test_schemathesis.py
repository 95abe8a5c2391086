"""Test that requests which Schemathesis draws from the reference make no gateway fail, and that all responses fit it.

CASES=10000 sends 10,000 requests (`make reference-cases`); CASES_SEED repeats a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import positive_data_acceptance
from schemathesis.core.failures import FailureGroup

from shardclock_server.service import keys as use_cases
from shardclock_server.sql.keys.keys import WantedKey
from tests.support.gateway_process import gateway_process
from tests.support.roles import as_role
from tests.support.sql_client import session as session_of

CASES = int(os.environ.get("CASES", "400"))
SEED = int(os.environ.get("CASES_SEED", "7"))
WITHOUT_END = "/v1/log/stream"
# Fields that the schema describes as any text, with values that the gateway accepts.
PLAUSIBLE: dict[str, list[Any]] = {
    "delay": ["PT1H", "P1D", "PT0S"],
    "due_date": ["2030-01-31T08:00:00Z"],
    "schedule": ["R/PT1H", "0 8 * * MON"],
    "shift": ["PT1H", "-P1D"],
    "zone": ["Europe/Berlin", "UTC"],
    "name": ["a", "b", "order/7"],
    "target": ["log", "webhook:a"],
    "url": ["https://a.example.com/hooks"],
    "rule": ["R/P1D"],
    "lease": ["PT30S"],
    "keep": ["PT1H"],
    "to": ["start", "end"],
}
MODEL = b"""<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"><process id="a" isExecutable="true">
<startEvent id="start"/></process></definitions>"""


@schemathesis.serializer("application/x-ndjson")
def lines_of(_: Any, value: Any) -> bytes:
    """Write one line or several lines."""
    return b"\n".join(json.dumps(line).encode() for line in (value if isinstance(value, list) else [value]))


@schemathesis.serializer("application/xml")
def model_of(_: Any, value: Any) -> bytes:
    """Write a text unchanged, or a model that can be deployed."""
    return MODEL if len(str(value)) % 2 else str(value).encode("utf-8", "replace")


def made_plausible(case: Any, chance: random.Random) -> None:
    """Put valid values into half of the cases: otherwise the gateway would refuse nearly all of them."""
    for place in (case.query, case.path_parameters, case.body):
        if isinstance(place, dict) and chance.random() < 0.5:
            for name in place.keys() & PLAUSIBLE.keys():
                place[name] = chance.choice(PLAUSIBLE[name])
    if isinstance(case.query, dict) and "wait" in case.query:
        case.query["wait"] = "PT0.01S"
    if isinstance(case.body, dict) and chance.random() < 0.5:
        due = [name for name in ("due_date", "delay", "schedule") if name in case.body]
        for name in due[1:]:
            del case.body[name]


@pytest.fixture
def reference(dsn: str) -> Iterator[Any]:
    """Read the OpenAPI of a gateway that runs in a separate process, with a key that has all rights."""

    async def made() -> str:
        async with session_of(dsn, "owner") as owner:
            return (await use_cases.make(owner, WantedKey(None, "all", ("admin",)))).text

    key = asyncio.run(made())
    with gateway_process(as_role(dsn, "gateway"), SHARDCLOCK_GATEWAY_KEYS="true") as (url, _):
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        yield schema, {"Authorization": f"Bearer {key}"}


@pytest.mark.exhaustive
def test_responses_to_requests_that_are_drawn_from_the_reference_fit_the_reference(reference: Any) -> None:
    schema, headers = reference
    operations = [found.ok() for found in schema.get_all_operations()]
    operations = [operation for operation in operations if operation.path != WITHOUT_END]
    statuses, faults, chance = Counter[int](), dict[tuple[str, str], str](), random.Random(SEED)

    def ask(case: Any) -> None:
        made_plausible(case, chance)
        said = case.call(headers=headers)
        statuses[said.status_code] += 1
        try:
            # A request that fits the schema may still be answered 422: for example, a cron that never occurs.
            case.validate_response(said, excluded_checks=[positive_data_acceptance])
        except FailureGroup as group:
            for fault in group.exceptions:
                key = (case.operation.label, type(fault).__name__)
                faults.setdefault(key, f"{fault}\n{case.as_curl_command()}\n{said.text}")

    bounds = settings(
        max_examples=max(1, CASES // len(operations)),
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for operation in operations:
        seed(SEED)(bounds(given(case=operation.as_strategy())(ask)))()

    assert not faults, "\n\n".join(f"{key}: {fault}" for key, fault in faults.items())[:20_000]
    assert sum(statuses.values()) > CASES / 2, statuses
    assert statuses[200] + statuses[201] + statuses[202] + statuses[204] > CASES / 10, statuses
