"""Make the screenshots of docs/console.md from a fixed set of rows: `make screenshots`."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from typing import Any, NamedTuple

from playwright.async_api import Page

from tests.support import ROOT
from tests.support.chromium import chromium, watched
from tests.support.factories import add_timers, query
from tests.support.gateways import Api, serving
from tests.support.outage import break_down
from tests.support.postgres import Server

FOLDER = ROOT / "docs" / "console"
BYTES_MAX = 60_000
VIEW: dict[str, Any] = {"viewport": {"width": 1_200, "height": 880}, "color_scheme": "light"}
SIGNATURE = b"\x89PNG\r\n\x1a\n"

# Returns the width, the height, the colours of the palette, and each pixel's place in the palette.
TO_PALETTE = """
    async (text) => {
        const bytes = Uint8Array.from(atob(text), (it) => it.charCodeAt(0));
        const image = await createImageBitmap(new Blob([bytes], {type: "image/png"}));
        const canvas = new OffscreenCanvas(image.width, image.height);
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        const pixels = context.getImageData(0, 0, image.width, image.height).data;
        const counts = new Map();
        const shade = (at) => 17 * Math.round(pixels[at] / 17);  // 16 shades of each colour compress better
        const colour = (at) => (shade(at) << 16) | (shade(at + 1) << 8) | shade(at + 2);
        for (let at = 0; at < pixels.length; at += 4) counts.set(colour(at), (counts.get(colour(at)) ?? 0) + 1);
        const split = (it) => [it >> 16, (it >> 8) & 255, it & 255];
        const kept = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map((it) => split(it[0]));
        const far = (a, b) => Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]) + Math.abs(a[2] - b[2]);
        const places = new Map();
        for (const it of counts.keys()) {
            const own = split(it);
            places.set(it, kept.reduce((best, _, at) => (far(kept[at], own) < far(kept[best], own) ? at : best), 0));
        }
        let found = "";
        for (let at = 0; at < pixels.length; at += 4) found += String.fromCharCode(places.get(colour(at)));
        return [image.width, image.height, kept.flat(), btoa(found)];
    }
"""


class Screenshot(NamedTuple):
    """A picture's name, the path of its page, and the elements (CSS selectors) that the page must have."""

    name: str
    path: str
    elements: tuple[str, ...]


SCREENSHOTS = (
    Screenshot("overview", "", (".tiles li", ".past path.died", "svg.chart rect", "table td")),
    Screenshot("timer", "/timers/by-name/close-the-till", (".why", "dl.facts", "svg.strip path", "#next", "#records")),
    Screenshot("schedules", "/schedules", ("svg.strip path", "tbody th a")),
    Screenshot("dead-letters", "/dead-letters", ("tbody th", "form.filter")),
    Screenshot("instance", "/instances/101", ("svg g.token", "svg text.due", ".error", "pre")),
    Screenshot("operations", "/operations", ("tbody th a", ".badge")),
)

RULES = """
    insert into shardclock.timers (due_date, created_at, anchor, name, schedule, repetitions, target, occurrence, zone)
    select
        date_trunc('minute', now()) + i * interval '9 minutes', now() - interval '30 days',
        date_trunc('minute', now()) - interval '32 hours' + i * interval '9 minutes', name, rule, -1, target, 32,
        'Europe/Berlin'
    from unnest(
        array['close-the-till', 'send-the-digest', 'check-the-stock', 'renew-the-prices', 'sweep-the-carts'],
        array['R/PT1H', 'R/PT1H', 'R/PT1H', 'R/PT1H', 'R/PT1H'],
        array['order.expired', 'webhook:billing', 'log', 'log', 'order.expired']
    ) with ordinality it (name, rule, target, i)
"""
FIRINGS = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, name, schedule
    )
    select
        t.due_date - n * interval '1 hour' + (1 + (n * 7 + t.timer_key * 5) % 23) * interval '1 millisecond'
            + (n = 4)::integer * interval '60 milliseconds',
        t.timer_key - n - 1000, t.due_date - n * interval '1 hour', t.created_at, 32 - n, 'TRIGGERED', 'default',
        'USER', t.target, t.name, t.schedule
    from shardclock.timers t
    cross join generate_series(31, 1, -1) n
    where t.schedule is not null and t.name <> 'beat'
    order by 1
"""
# Two hours with a few late firings, and with dead letters in the last half hour.
PAST = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target
    )
    select
        m.at + case when it.intent = 'TRIGGERED' and n.minute between 48 and 52 and i % 4 = 0
            then interval '7 seconds' * (53 - n.minute) else interval '2 milliseconds' end,
        20000 + n.minute * 100 + i, m.at, now() - interval '1 day', 2, it.intent, 'default', 'USER', 'order.expired'
    from generate_series(0, 118) as n (minute)
    cross join lateral (
        values ('TRIGGERED', 20 + n.minute * 7 % 13), ('DELIVERED', 14 + n.minute * 5 % 11),
            ('DEAD', case when n.minute in (95, 97, 103, 114) then 1 + n.minute % 3 else 0 end)
    ) as it (intent, number)
    cross join lateral generate_series(1, it.number) i
    cross join lateral (
        select date_trunc('minute', now()) - (119 - n.minute) * interval '1 minute' + i * interval '1 second' as at
    ) m
    order by 1
"""
OTHER_LETTERS = """
    insert into shardclock.dead_letters (
        timer_key, due_date, created_at, fired_at, died_at, occurrence, claims, failed_attempts, slot, tenant_id,
        timer_type, target, name, reason
    )
    select
        8000 + i, now() - interval '1 day', now() - interval '1 day', now() - interval '1 day',
        now() - i * interval '4 minutes', 1, 9, 9, i % 840, 'default', 'USER', 'webhook:billing',
        'invoice-' || 4100 + i, case when i % 3 = 0 then 'no answer within 5 s' else 'HTTP 503: closed' end
    from generate_series(1, 6) i
"""
OPERATIONS = """
    insert into shardclock.operations (
        request_id, due_at, matched, changed, by_operator, tenant_id, verb, filter, change, interface, key_name, state,
        begun_at, ended_at
    )
    select
        gen_random_uuid(), now() + interval '50 seconds', matched, changed, true, 'default', verb,
        '{"name_prefix": "order-"}', jsonb_build_object('reason', reason), 'console', actor, state,
        now() - ago::interval, case when state <> 'RUNNING' then now() - ago::interval + interval '40 seconds' end
    from unnest(
        array['cancel', 'dead-letters redrive', 'pause', 'shift'], array[1200, 640, 87, 5000],
        array[1200, 640, 31, 2000], array['the shop is closed', null, 'prices are wrong', null],
        array['ann', 'night', 'ann', 'night'], array['DONE', 'DONE', 'CANCELED', 'RUNNING'],
        array['3 hours', '2 hours', '50 minutes', '20 seconds']
    ) it (verb, matched, changed, reason, actor, state, ago)
"""
OF_INSTANCE = {
    "target": "'process:instance'", "process_instance_key": "101", "element_instance_key": "3",
    "target_element_id": "'too-late'", "timer_type": "'BOUNDARY'", "name": "'process:101:3:' || i",
}  # fmt: skip


async def fill(dsn: str, api: Api) -> None:
    """Write the rows of the screenshots: a working day with a few faults."""
    await break_down(dsn, api)
    await query(dsn, "delete from shardclock.timers where name in ('late-1', 'late-2', 'beat')")
    await query(dsn, "delete from shardclock.command_log")
    await query(dsn, "update shardclock.scale set wanted = 1")
    await query(dsn, "update shardclock.timers set due_date = now() + interval '40 minutes' where name = 'job:nightly'")
    await query(dsn, RULES)
    await query(dsn, FIRINGS)
    await query(dsn, PAST)
    await query(dsn, OTHER_LETTERS)
    await query(dsn, OPERATIONS)
    await add_timers(dsn, 1, "now() + interval '47 minutes'", **OF_INSTANCE)
    spread = "now() + interval '20 seconds' + (i * 37 % 1770) * interval '1 second'"
    for target, count in (("order.expired", 300), ("webhook:billing", 160), ("log", 70)):
        await add_timers(dsn, count, spread, target=f"'{target}'", created_at="now()")


async def open_page(page: Page, url: str, shot: Screenshot) -> None:
    """Open a page, and check that its required elements exist.

    errors:  AssertionError  names the missing elements
    """
    await page.goto(f"{url}/console{shot.path}", wait_until="load")
    missing = [it for it in shot.elements if not await page.locator(it).count()]
    assert missing == [], shot.name


async def with_palette(page: Page, picture: bytes) -> bytes:
    """Reduce a PNG to its 256 most frequent colours; the browser reads the pixels."""
    width, height, colours, places = await page.evaluate(TO_PALETTE, base64.b64encode(picture).decode())
    rows = base64.b64decode(places)
    lines = b"".join(b"\0" + rows[at : at + width] for at in range(0, len(rows), width))  # each row without a filter
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", bytes(colours)), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


async def take_all(dsn: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    async with serving(dsn) as api, chromium() as browser, watched(browser, **VIEW) as opened:
        await fill(dsn, api)
        blank = await opened.page.context.new_page()
        for shot in SCREENSHOTS:
            await open_page(opened.page, api.url, shot)
            picture = await with_palette(blank, await opened.page.screenshot())
            assert len(picture) <= BYTES_MAX, (shot.name, len(picture))
            (FOLDER / f"{shot.name}.png").write_bytes(picture)


def main() -> None:
    """Start a server, and write all screenshots."""
    server = Server(18)
    try:
        asyncio.run(take_all(server.clone()))
    finally:
        server.close()


if __name__ == "__main__":
    main()
