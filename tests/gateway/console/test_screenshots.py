"""Test that the pages of the screenshots have their main elements, and that the docs show each picture."""

from __future__ import annotations

import re
from base64 import b64encode

import pytest

from tests.support import ROOT
from tests.support.chromium import chromium, watched
from tests.support.gateways import Api
from tests.support.screenshots import BYTES_MAX, FOLDER, SCREENSHOTS, SIGNATURE, VIEW, fill, open_page, with_palette


def test_the_docs_show_each_picture_with_a_description() -> None:
    shown = re.findall(r"!\[([^\]]+)\]\(console/([\w-]+)\.png\)", (ROOT / "docs" / "console.md").read_text())

    assert [name for _, name in shown] == [it.name for it in SCREENSHOTS]
    assert {it.name for it in FOLDER.iterdir()} == {f"{it.name}.png" for it in SCREENSHOTS}
    assert min(len(description) for description, _ in shown) > 20
    for shot in SCREENSHOTS:
        picture = (FOLDER / f"{shot.name}.png").read_bytes()
        assert picture.startswith(SIGNATURE), shot.name
        assert len(picture) <= BYTES_MAX, shot.name


@pytest.mark.exhaustive
async def test_each_page_of_a_picture_has_its_main_elements(dsn: str, api: Api) -> None:
    async with chromium() as browser, watched(browser, **VIEW) as opened:
        await fill(dsn, api)
        blank = await opened.page.context.new_page()
        for shot in SCREENSHOTS:
            await open_page(opened.page, api.url, shot)
            await opened.assert_sound()
        picture = await with_palette(blank, await opened.page.screenshot())

        size = (
            "async (text) => { const it = new Image(); it.src = text; await it.decode(); return [it.width, it.height] }"
        )
        address = f"data:image/png;base64,{b64encode(picture).decode()}"
        assert await blank.evaluate(size, address) == list(VIEW["viewport"].values())
