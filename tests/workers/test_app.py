"""Prove how an app is found, how its handlers are read, and that an app which can't be used is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from shardclock_server.workers.app import App, AppRefused, find_app, modules_of
from shardclock_server.workers.describe import OURS
from tests.support import ROOT
from tests.support.cli_asserts import BAD_INPUT
from tests.support.program import run

ORDERS = """
import shardclock

@shardclock.on_timer("order.expired", max_attempts=3)
async def expire(timer: shardclock.Timer) -> None:
    pass
"""
JOBS = """
import shardclock

@shardclock.job(every="PT15M", config={"city": "Rome"})
def refresh(run): ...

@shardclock.job("nightly", cron="0 3 * * *", zone="Europe/Berlin")
async def train(run): ...
"""


def test_what_is_named_is_the_app_and_else_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert modules_of(None) == ""
    info = tmp_path / "shop-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[shardclock.handlers]\norders = shop.orders\nmails = shop.mails:send\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert modules_of(None) == "shop.mails:send,shop.orders"
    assert modules_of("reminders") == "reminders"


def test_an_app_is_imported_elsewhere_and_its_handlers_are_learnt(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(ORDERS)

    app = find_app("orders", tmp_path)

    (handler,) = app.handlers
    assert (handler.target, handler.is_async, handler.policy.max_attempts) == ("order.expired", True, 3)
    assert App.from_json(app.to_json()) == app


def test_an_app_may_have_jobs_alone_and_they_are_learnt_with_their_rules(tmp_path: Path) -> None:
    (tmp_path / "recurring.py").write_text(JOBS)

    app = find_app("recurring", tmp_path)

    assert app.handlers == ()
    refresh, nightly = app.jobs
    assert (refresh.name, refresh.every_s, refresh.config) == ("refresh", 900.0, '{"city": "Rome"}')
    assert (nightly.schedule, nightly.zone) == ("0 3 * * *", "Europe/Berlin")
    assert App.from_json(app.to_json()) == app


@pytest.mark.parametrize(
    ("modules", "text", "why"),
    [
        (
            "daily",
            "import shardclock\n@shardclock.job(cron='0 25 * * *')\ndef tidy(run): ...",
            "job tidy .* is refused",
        ),
        (
            "never",
            "import shardclock\n@shardclock.job(cron='0 0 30 2 *')\ndef tidy(run): ...",
            r"job tidy \(never:tidy\) has a rule that is refused: schedule '0 0 30 2 \*' never occurs after",
        ),
        ("broken", "import nothing_of_that_name", "can't be imported"),
        ("ends", "import os; os._exit(7)", "it ended with code 7"),
        ("missing", None, "there is no module"),
        ("json", None, "has no handlers"),
    ],
)
def test_an_app_that_cannot_be_used_is_refused(tmp_path: Path, modules: str, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / f"{modules}.py").write_text(text)

    with pytest.raises(AppRefused, match=why):
        find_app(modules, tmp_path)


@pytest.mark.parametrize(
    ("modules", "files"),
    [
        ("metrics", {"metrics.py": ORDERS}),
        ("demo.handlers", {"demo/__init__.py": "", "demo/handlers.py": ORDERS}),
        ("shardclock", {"shardclock.py": ORDERS}),
        ("workers:expire", {"workers/any.py": "", "workers/orders.py": ORDERS}),
        ("orders", {"orders.py": "import metrics\n" + ORDERS, "metrics.py": ""}),
        ("orders", {"orders.py": "from workers import mine\n" + ORDERS, "workers.py": "mine = 1"}),
    ],
    ids=["module", "package", "client", "without __init__", "imported", "imported in vain"],
)
def test_a_module_of_the_user_that_has_the_name_of_one_of_ours_is_refused(
    tmp_path: Path, modules: str, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    taken = next(name for name in files if name != "orders.py").split("/")[0].removesuffix(".py")

    with pytest.raises(AppRefused) as refused:
        find_app(modules, tmp_path)

    assert str(refused.value) == (
        f"app '{modules}' is refused: its module '{taken}' has the name of a package of Shardclock, which is imported"
        f" in its place; give it another name, such as my_{taken}"
    )


def test_a_folder_of_such_a_name_without_modules_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text("import sql\n" + ORDERS)
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "tables.sql").write_text("")
    (tmp_path / "metrics.py").write_text("")  # not a part of the app

    assert [handler.target for handler in find_app("orders", tmp_path).handlers] == ["order.expired"]


def test_our_own_apps_are_not_taken_for_a_user_s() -> None:
    assert find_app("shardclock_server.demo.app", ROOT).handlers


def test_the_names_that_are_taken_are_those_of_our_packages() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]

    assert {*OURS} == {name for name in packages if "." not in name} | {"shardclock"}


def test_a_cluster_whose_app_cannot_be_used_does_not_start(tmp_path: Path) -> None:
    environment = {"SHARDCLOCK_DATA_DIR": str(tmp_path / "data")}

    done = run("up", "--app", "missing", environment=environment, cwd=tmp_path)

    assert (done.code, "there is no module" in done.err) == (BAD_INPUT, True)
    assert not (tmp_path / "data").exists()
