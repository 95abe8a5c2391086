"""Test the groups of failing deliveries on the page of deliveries."""

from __future__ import annotations

from tests.support.console import XSS, Browser
from tests.support.deliveries import HANDLER, add_deliveries

OWN = {"tenant_id": "'default'", "next_attempt_at": "now() + interval '1 h'"}


async def test_failing_deliveries_are_grouped_by_target_and_first_line_of_the_last_reason(
    dsn: str, browser: Browser
) -> None:
    failed = "jsonb_build_array(jsonb_build_object('reason', 'an earlier one'), jsonb_build_object('reason', {}))"
    answered = failed.format(r"'it answered 503 for customer_' || i || E'\n' || i")
    await add_deliveries(dsn, 3, HANDLER, **OWN, failed_attempts="2", failures=answered)
    await add_deliveries(dsn, 1, HANDLER, **OWN, failed_attempts="2", failures=failed.format(f"$${XSS}$$"))
    await add_deliveries(dsn, 2, "cart.left", **OWN, failed_attempts="2", failures=answered)
    await add_deliveries(dsn, 1, "cart.left", **OWN)
    await add_deliveries(dsn, 1, "cart.left", **OWN | {"tenant_id": "'other'"}, failed_attempts="2", failures=answered)

    shown = await browser.get("/deliveries?failing=true")
    shown.assert_escapes()
    one = await browser.get(f"/deliveries?failing=true&target={HANDLER}")

    assert f"3 {HANDLER} it answered 503 for #" in shown.main
    assert "2 cart.left it answered 503 for #" in shown.main
    assert f"1 {HANDLER} <script>" in shown.main
    assert ("3 " + HANDLER in one.main, "2 cart.left" in one.main) == (True, False)
    assert "by reason" not in (await browser.get("/deliveries")).main
