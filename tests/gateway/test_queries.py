"""Test that an unknown query parameter is refused, with the names of the known parameters."""

from __future__ import annotations

from tests.support.gateways import Api


async def test_an_unknown_query_parameter_is_refused(api: Api) -> None:
    tenant = "name the tenant in the header Shardclock-Tenant"
    for method, path, *words in (
        ("GET", "/v1/log?from=5", "'from' is not known here", "it takes after, limit, wait"),
        ("GET", "/v1/timers?tenant_id=acme", "tenant_id is not known", tenant),
        ("GET", "/v1/timers/7?tenant=acme", "tenant is not known", tenant),
        ("GET", "/v1/timers/7?limt=5", "'limt' is not known here", "it takes none"),
        ("GET", "/v1/timers?limt=5", "'limt' is not known here", "it takes after, changed_before"),
        ("POST", "/v1/timers?wiat=PT1S", "'wiat' is not known here", "it takes wait"),
        ("PUT", "/v1/timers/by-name/n?wiat=PT1S", "'wiat' is not known here", "it takes wait"),
        ("POST", "/v1/timers/7/cancel?reason=paid", "'reason' is not known here", "it takes none"),
    ):
        body = {"delay": "PT1H"} if method != "GET" and "cancel" not in path else None
        (await api.ask(method, path, body)).assert_problem("refused", 422, *words)
    assert (await api.get("/healthz?probe=1")).status == 200
