"""Test that a group over HTTP gets each record at least once, and has partitions, like a group in Python."""

from __future__ import annotations

import asyncio

from tests.support.gateways import Api, canceled

NAMES = [f"n{number}" for number in range(7)]


async def leased(api: Api, **asked: object) -> dict[str, object]:
    done = await api.post("/v1/consumers/billing/lease", asked or None)
    assert done.status == 200, done
    lease: dict[str, object] = done.json
    return lease


def names(lease: dict[str, object]) -> list[str]:
    return [record["name"] for record in lease["records"]]  # type: ignore[attr-defined] # as it is answered


async def test_a_group_works_through_the_log_in_leases(api: Api) -> None:
    await canceled(api, *NAMES)
    got: list[str] = []
    while (done := await api.post("/v1/consumers/billing/lease", {"limit": 3})).status == 200:
        got += names(done.json)
        acknowledged = await api.post("/v1/consumers/billing/acknowledge", {"token": done.json["token"]})
        assert (acknowledged.status, acknowledged.json["token"]) == (200, None)

    assert (done.status, got) == (204, NAMES)
    (group,) = (await api.get("/v1/consumers")).json["groups"]
    assert (group["group"], group["lag_records"]) == ("billing", 0)


async def test_after_a_partial_acknowledgement_the_next_lease_begins_with_the_next_record(api: Api) -> None:
    await canceled(api, *NAMES)
    lease = await leased(api)
    second = lease["records"][1]["position"]  # type: ignore[index] # as it is answered
    kept = await api.post(
        "/v1/consumers/billing/acknowledge", {"token": lease["token"], "position": second, "lease": "PT30S"}
    )
    assert (kept.json["position"], kept.json["token"] is None) == (second, False)
    assert (await api.post("/v1/consumers/billing/lease")).status == 204  # the lease is still valid
    back = await api.post("/v1/consumers/billing/acknowledge", {"token": kept.json["token"], "position": second})
    assert back.status == 200

    assert names(await leased(api)) == NAMES[2:]


async def test_an_acknowledgement_is_answered_again_after_a_lost_answer(api: Api) -> None:
    await canceled(api, *NAMES)
    lease = await leased(api)
    asked = {"token": lease["token"]}
    first = await api.post("/v1/consumers/billing/acknowledge", asked)

    again = await api.post("/v1/consumers/billing/acknowledge", asked)

    assert (again.status, again.json) == (200, first.json)
    kept = await api.post("/v1/consumers/billing/acknowledge", asked | {"lease": "PT30S"})
    kept.assert_problem("conflict", 409, "stop the work")
    assert (await api.post("/v1/consumers/billing/seek", {"to": "start"})).status == 200
    late = await api.post("/v1/consumers/billing/acknowledge", asked)
    late.assert_problem("conflict", 409, "stop the work")


async def test_an_expired_lease_is_lost_and_another_member_gets_the_records(api: Api) -> None:
    await canceled(api, *NAMES)
    lost = await leased(api, lease="PT0.2S")
    await asyncio.sleep(0.4)
    taken = await leased(api)

    assert names(taken) == NAMES[:1]  # after an expired lease the records come one by one
    late = await api.post("/v1/consumers/billing/acknowledge", {"token": lost["token"]})
    late.assert_problem("conflict", 409, "stop the work")


async def test_a_group_is_reset_and_dropped(api: Api) -> None:
    await canceled(api, *NAMES)
    lease = await leased(api)
    await api.post("/v1/consumers/billing/acknowledge", {"token": lease["token"]})
    assert (await api.post("/v1/consumers/billing/lease")).status == 204

    assert (await api.post("/v1/consumers/billing/seek", {"to": "start"})).json["position"] == 0
    assert names(await leased(api)) == NAMES
    assert (await api.ask("DELETE", "/v1/consumers/billing")).status == 204
    (await api.ask("DELETE", "/v1/consumers/billing")).assert_problem("not_found", 404, "'billing'")


async def test_an_invalid_lease_request_is_refused(api: Api) -> None:
    cases: list[tuple[str, dict[str, object], str]] = [
        ("lease", {"limit": 0}, "limit"),
        ("lease", {"lease": "soon"}, "lease 'soon'"),
        ("lease", {"lease": "P1D"}, "lease 'P1D'"),
        ("acknowledge", {"token": "x"}, "token 'x'"),
        ("acknowledge", {"token": "WzEsMiwzXQ=="}, "token"),
        ("acknowledge", {"token": "W0luZmluaXR5LDEsMSwxLDEsMV0="}, "token"),  # the token's JSON has Infinity
        ("acknowledge", {}, "token is missing"),
        ("acknowledge", {"token": "x", "position": 2**63}, "position"),
        ("seek", {"to": "yesterday"}, "to 'yesterday'"),
    ]
    for path, body, words in cases:
        (await api.post(f"/v1/consumers/billing/{path}", body)).assert_problem("refused", 422, words)
    (await api.post("/v1/consumers/a%0Cb/lease")).assert_problem("refused", 422, "Postgres refuses it")
