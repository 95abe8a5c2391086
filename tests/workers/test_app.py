"""The search for an app, its handlers and jobs, and the refusal of an invalid app."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardclock_server.workers.app import App, AppRefused, find_app, modules_of
from tests.support import PACKAGE_NAMES, ROOT
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


def test_the_app_consists_of_the_named_modules_or_the_installed_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert modules_of(None) == ""
    info = tmp_path / "shop-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[shardclock.handlers]\norders = shop.orders\nmails = shop.mails:send\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert modules_of(None) == "shop.mails:send,shop.orders"
    assert modules_of("reminders") == "reminders"


def test_an_app_is_imported_in_another_process_which_lists_its_handlers(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(ORDERS)

    app = find_app("orders", tmp_path)

    (handler,) = app.handlers
    assert (handler.target, handler.is_async, handler.policy.max_attempts) == ("order.expired", True, 3)
    assert App.from_json(app.to_json()) == app


def test_an_app_with_only_jobs_is_described_with_their_rules(tmp_path: Path) -> None:
    (tmp_path / "recurring.py").write_text(JOBS)

    app = find_app("recurring", tmp_path)

    assert app.handlers == ()
    refresh, nightly = app.jobs
    assert (refresh.name, refresh.every_s, refresh.config) == ("refresh", 900.0, '{"city": "Rome"}')
    assert (nightly.schedule, nightly.zone) == ("0 3 * * *", "Europe/Berlin")
    assert App.from_json(app.to_json()) == app


def test_imported_modules_with_handlers_that_the_app_does_not_contain_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "recurring.py").write_text(JOBS + "from crew import mail\nfrom orders import expire\n")
    (tmp_path / "orders.py").write_text(ORDERS)
    (tmp_path / "crew").mkdir()
    (tmp_path / "crew/mail.py").write_text(ORDERS.replace("order.expired", "mail.sent"))

    app = find_app("recurring", tmp_path)

    assert [handler.target for handler in app.handlers] == ["order.expired"]
    assert app.left_out == ("crew.mail",)
    whole = find_app("recurring,crew.mail", tmp_path)
    assert ([handler.target for handler in whole.handlers], whole.left_out) == (["order.expired", "mail.sent"], ())


@pytest.mark.parametrize(
    ("modules", "text", "why"),
    [
        (
            "never",
            "import shardclock\n@shardclock.job(cron='0 0 30 2 *')\ndef tidy(run): ...",
            r"job tidy \(never:tidy\) has a rule that is refused: schedule '0 0 30 2 \*' never occurs after",
        ),
        ("on_fault", "import nothing_of_that_name", "can't be imported"),
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


@pytest.mark.parametrize("name", PACKAGE_NAMES)
def test_a_module_of_the_user_may_have_the_name_of_a_package_of_the_server(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text(ORDERS)
    (tmp_path / "orders.py").write_text(f"from {name} import expire\n")

    for app in (name, f"{name}:expire", "orders"):
        (handler,) = find_app(app, tmp_path).handlers
        assert handler.reference == f"{name}:expire"


def test_a_file_of_the_user_that_is_called_shardclock_does_not_hide_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders.py").write_text(ORDERS)
    (tmp_path / "shardclock.py").write_text("raise RuntimeError('this file is not the client')\n")
    monkeypatch.chdir(tmp_path)

    (handler,) = find_app("orders", tmp_path).handlers

    assert handler.target == "order.expired"


@pytest.mark.parametrize("is_on_path", [False, True], ids=["in the directory of the app", "on PYTHONPATH"])
def test_a_module_of_the_user_takes_precedence_over_an_installed_module_with_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_on_path: bool
) -> None:
    (tmp_path / "regex.py").write_text(ORDERS)
    if is_on_path:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    (handler,) = find_app("regex", ROOT if is_on_path else tmp_path).handlers

    assert handler.reference == "regex:expire"


def test_a_cluster_whose_app_cannot_be_used_does_not_start(tmp_path: Path) -> None:
    environment = {"SHARDCLOCK_DATA_DIR": str(tmp_path / "data")}

    done = run("up", "--app", "missing", environment=environment, cwd=tmp_path)

    assert (done.code, "there is no module" in done.err) == (BAD_INPUT, True)
    assert not (tmp_path / "data").exists()
