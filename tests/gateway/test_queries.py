"""Test that an unknown query parameter is refused, with the names of the known parameters."""

from __future__ import annotations

import pytest

from tests.support.gateways import Api


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("GET", "/v1/log?from=5", ["'from' is not known here", "it takes after, limit, wait"]),
        (
            "GET",
            "/v1/timers?tenant_id=acme",
            ["tenant_id is not known", "name the tenant in the header Shardclock-Tenant"],
        ),
        ("GET", "/v1/timers/7?tenant=acme", ["tenant is not known", "name the tenant in the header Shardclock-Tenant"]),
        ("GET", "/v1/timers/7?limt=5", ["'limt' is not known here", "it takes none"]),
        ("GET", "/v1/timers?limt=5", ["'limt' is not known here", "it takes after, changed_before"]),
        ("GET", "/v1/endpoints?limt=5", ["'limt' is not known here", "it takes limit"]),
        ("POST", "/v1/timers?wiat=PT1S", ["'wiat' is not known here", "it takes wait"]),
        ("PUT", "/v1/timers/by-name/n?wiat=PT1S", ["'wiat' is not known here", "it takes wait"]),
        ("POST", "/v1/timers/7/cancel?reason=paid", ["'reason' is not known here", "it takes none"]),
        ("POST", "/v1/consumers/billing/seek?to=start", ["'to' is not known here", "it takes none"]),
    ],
)
async def test_an_unknown_query_parameter_is_refused(api: Api, method: str, path: str, words: list[str]) -> None:
    body = {"delay": "PT1H"} if method != "GET" and "cancel" not in path and "seek" not in path else None

    (await api.ask(method, path, body)).assert_problem("refused", 422, *words)


async def test_a_health_probe_may_have_any_query(api: Api) -> None:
    assert (await api.get("/healthz?probe=1")).status == 200
