"""Prove which modules are the app: those that are named, else those that installed packages have as entry points."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.app import modules_of


def test_what_is_named_is_the_app_and_else_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert modules_of(None) == ""
    info = tmp_path / "shop-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[shardclock.handlers]\norders = shop.orders\nmails = shop.mails:send\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert modules_of(None) == "shop.mails:send,shop.orders"
    assert modules_of("reminders") == "reminders"
