"""Series that must or must not set off each alert about gateways, added to the healthy series of `alert_cases`."""

from __future__ import annotations

from tests.support.alert_cases import Case, answered, growing, loop_lag, one, requests, steady, tables

QUIET = requests("2xx", steady(500)) | requests("4xx", steady(20)) | requests("5xx", steady(3))
QUIET |= requests("503", steady(3)) | answered(steady(500), within_a_second=steady(500))

CASES = [
    Case("all gateways gone since ten minutes", "ShardclockNoGateway",
         tables("gateways", "1+0x40 stale"), ("ShardclockNoGateway",)),
    Case("one of two gateways gone", "ShardclockNoGateway",
         one("gateways", "1+0x40 stale")),
    Case("all gateways replaced at once", "ShardclockNoGateway",
         tables("gateways", "1+0x40 stale _x3 1+0x100"), at="22m"),
    Case("gateways that were gone for ten minutes and are back", "ShardclockNoGateway",
         tables("gateways", "1+0x20 stale _x20 1+0x100")),
    Case("an installation that never had a gateway", "ShardclockNoGateway", without="gateway"),

    Case("a tenth of the creates answered 500", "ShardclockRequestsBroken",
         requests("5xx", growing(12)), ("ShardclockRequestsBroken",)),
    Case("all of two operations answered 500", "ShardclockRequestsBroken",
         requests("5xx", growing(9), "get_timer") | requests("5xx", growing(9), "list_timers"),
         ("ShardclockRequestsBroken", "ShardclockRequestsBroken")),
    Case("all of eight requests answered 500", "ShardclockRequestsBroken",
         requests("5xx", "0+0x45 1 2 3 4+0x100", "get_timer")),
    Case("a fifth answered 500, until twenty minutes ago", "ShardclockRequestsBroken",
         requests("5xx", "0+25x40 1000+0x200"), at="40m"),

    Case("half of the requests answered 503 while Postgres answers the exporters", "ShardclockRequestsUnavailable",
         requests("503", growing(100)), ("ShardclockRequestsUnavailable",)),
    Case("all answered 503 because Postgres is away", "ShardclockRequestsUnavailable",
         requests("2xx", "0+100x40 4000+0x100") | requests("503", "0+0x40 0+100x100")
         | tables("store_up", "1+0x40 0+0x100"), ("ShardclockStoreDown",)),
    Case("Postgres back since two minutes", "ShardclockRequestsUnavailable",
         requests("2xx", "0+100x40 4000+0x15 4000+100x100") | requests("503", "0+0x40 0+100x15 1500+0x100")
         | tables("store_up", "1+0x40 0+0x14 1+0x100")),
    Case("probes of a gateway without Postgres and without clients", "ShardclockRequestsUnavailable",
         QUIET | requests("503", growing(3), "readyz")),
    Case("eight answered 503 in a quiet night", "ShardclockRequestsUnavailable",
         QUIET | requests("503", "3+0x52 6+0x2 7+0x100")),
    Case("a gateway that had no connection for a minute, a quarter of an hour ago", "ShardclockRequestsUnavailable",
         requests("503", "0+0x30 0+100x2 300+0x100")),

    Case("one in twenty creates takes five seconds", "ShardclockRequestsSlow",
         answered(growing(100), within_a_second=growing(95)), ("ShardclockRequestsSlow",)),
    Case("one in twenty of a hundred thousand lines takes five seconds", "ShardclockRequestsSlow",
         answered(growing(100), within_a_second=growing(95), operation="create_timers")
         | answered(growing(100), within_a_second=growing(50), operation="test_endpoint")),
    Case("all of eighty requests in five minutes take five seconds", "ShardclockRequestsSlow",
         answered(growing(4), within_a_second=steady(0), operation="explain_timer")),
    Case("slow since four minutes", "ShardclockRequestsSlow",
         answered(growing(100), within_a_second="0+100x51 5100+20x100")),

    Case("a tenant that is refused twice a second", "ShardclockTenantThrottled",
         tables("requests_throttled_total", growing(60), tenant="acme"), ("ShardclockTenantThrottled",)),
    Case("two tenants beside one that is refused at times", "ShardclockTenantThrottled",
         tables("requests_throttled_total", growing(60), tenant="initech")
         | tables("requests_throttled_total", growing(60), tenant="other"),
         ("ShardclockTenantThrottled", "ShardclockTenantThrottled")),
    Case("a tenant that asked for too much until half an hour ago", "ShardclockTenantThrottled",
         tables("requests_throttled_total", "0+60x20 1200+0x200", tenant="acme"), at="40m"),

    Case("three keys that expire soon, as two gateways count them", "ShardclockKeysExpire",
         tables("keys_expiring", steady(3)), ("ShardclockKeysExpire",)),
    Case("a key that is replaced soon", "ShardclockKeysExpire",
         tables("keys_expiring", "0+0x40 1+0x100")),
    Case("a gateway that can't count keys", "ShardclockKeysExpire", without="keys_expiring"),

    Case("a gateway that has not read the log for minutes", "ShardclockWaitersBehind",
         one("waiters_behind_seconds", "0+0x40 0+30x100"), ("ShardclockWaitersBehind",)),
    Case("a gateway that has not read since a moment ago", "ShardclockWaitersBehind",
         one("waiters_behind_seconds", "0+0x58 20 50 0+0x100")),
    Case("a gateway that has caught up after minutes", "ShardclockWaitersBehind",
         one("waiters_behind_seconds", "0+0x30 0+30x10 0+0x100")),

    Case("19,000 of 20,000 waiting clients at one gateway", "ShardclockGatewayNearlyFull",
         one("waiters", steady(19_000)), ("ShardclockGatewayNearlyFull",)),
    Case("190 of 200 followers of the log at both gateways", "ShardclockGatewayNearlyFull",
         tables("log_streams", steady(190)), ("ShardclockGatewayNearlyFull", "ShardclockGatewayNearlyFull")),
    Case("both kinds of places taken at one gateway", "ShardclockGatewayNearlyFull",
         one("log_streams", steady(190)) | one("waiters", steady(19_000)), ("ShardclockGatewayNearlyFull",)),
    Case("450 of 500 programs that wait for service tasks at one gateway", "ShardclockGatewayNearlyFull",
         one("task_waits", steady(450)), ("ShardclockGatewayNearlyFull",)),
    Case("30,000 waiting clients on a node with two gateways", "ShardclockGatewayNearlyFull",
         one("waiters", steady(30_000)) | one("waiters_max", steady(40_000))),
    Case("places that have been taken for three minutes", "ShardclockGatewayNearlyFull",
         one("waiters", "400+0x54 19000+0x100")),

    Case("a loop that is blocked for a second each minute", "ShardclockGatewayLoopBlocked",
         loop_lag(growing(300), within_a_quarter=growing(297)),
         ("ShardclockGatewayLoopBlocked", "ShardclockGatewayLoopBlocked")),
    Case("a machine that paused for a while", "ShardclockGatewayLoopBlocked",
         loop_lag(growing(300), within_a_quarter=f"{growing(300, 43)} 13195+300x100")),
    Case("a loop that stood still until twenty minutes ago", "ShardclockGatewayLoopBlocked",
         loop_lag(growing(300), within_a_quarter=f"{growing(297, 30)} {297 * 31}+300x100"), at="50m"),
]  # fmt: skip
