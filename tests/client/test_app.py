"""Test that an app's handlers are found by module and function names, and that unusable handlers are refused."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import shardclock
from shardclock import InvalidHandler, describe, find_handlers, handlers_of, installed_apps
from tests.support import ROOT

App = Callable[[str, str], None]

REMINDERS = """
import shardclock

@shardclock.on_timer("order.reminded", max_attempts=3)
async def remind(timer: shardclock.Timer) -> None: ...

@shardclock.on_timer("rows.aggregated", batch=500, memory_mib=256)
def aggregate(timers: list[shardclock.Timer]) -> None: ...

def helper(): ...
"""


def handler(target: str, name: str) -> str:
    return f"import shardclock\n@shardclock.on_timer({target!r})\ndef {name}(timer): ...\n"


def refusal(*apps: str) -> str:
    with pytest.raises(InvalidHandler) as refused:
        find_handlers(apps)
    assert str(refused.value).isprintable()
    return str(refused.value)


def test_a_modules_handlers_are_found_by_target(app: App) -> None:
    app("reminders.py", REMINDERS)

    handlers = find_handlers(["reminders"])

    assert {target: handler.reference for target, handler in handlers.items()} == {
        "order.reminded": "reminders:remind",
        "rows.aggregated": "reminders:aggregate",
    }
    assert handlers == handlers_of(sys.modules["reminders"])


def test_a_function_can_be_found_without_its_module(app: App) -> None:
    app("reminders.py", REMINDERS)

    assert list(find_handlers([" reminders:remind "])) == ["order.reminded"]


def test_a_function_with_two_targets_is_found_for_both_targets(app: App) -> None:
    app("reminders.py", handler("a", "act").replace("def act", "@shardclock.on_timer('b')\ndef act"))

    assert sorted(find_handlers(["reminders:act"])) == ["a", "b"]


def test_a_package_has_the_handlers_of_the_modules_that_it_imports(app: App) -> None:
    app("shop/__init__.py", "from shop import orders\nfrom elsewhere import act")
    app("shop/orders.py", handler("orders", "act"))
    app("shop/unused.py", handler("unused", "act"))
    app("elsewhere.py", handler("elsewhere", "act") + handler("not.imported", "other"))
    app("shopping.py", handler("shopping", "act"))
    importlib.import_module("shopping")

    assert sorted(find_handlers(["shop"])) == ["elsewhere", "orders"]


def test_several_apps_are_found_together(app: App) -> None:
    app("one.py", handler("one", "act"))
    app("other.py", handler("other", "act"))

    assert list(find_handlers(["one", "other", "one:act"])) == ["one", "other"]


def test_a_module_that_is_also_the_main_program_has_each_handler_once(app: App) -> None:
    app("reminders.py", handler("a", "act"))
    running: dict[str, object] = {"__name__": "__main__"}
    exec(handler("a", "act"), running)

    found = find_handlers(["reminders"])

    assert found["a"].reference == "reminders:act"
    assert found["a"].function is not running["act"]


def test_a_module_that_is_reloaded_has_its_new_handlers(app: App) -> None:
    app("reminders.py", handler("a", "act"))
    before = find_handlers(["reminders"])

    after = handlers_of(importlib.reload(sys.modules["reminders"]))

    assert after["a"].function is not before["a"].function


@pytest.mark.parametrize("name", ["", "a b", "a/b.py", ".a", "a:", "a:b:c", "a:b.c", "1a", "a,b", "a\nb"])
def test_an_invalid_module_name_is_refused(name: str) -> None:
    assert refusal(name) == (
        f"app {name!r} is refused: it must be package.module or package.module:function, as in an import"
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *((name, "'no_such'; check its name, and that its folder is") for name in ("no_such.module", "no_such:act")),
        ("shop.py", "'shop.py'; write shop, without .py, and check that its folder is"),
        ("shop.py:act", "'shop.py'; write shop:act, without .py, and check that its folder is"),
        ("no_such.py", "'no_such'; write no_such, without .py, and check that its folder is"),
    ],
)
def test_a_missing_module_or_a_file_is_refused_with_the_modules_name(app: App, name: str, why: str) -> None:
    app("shop.py", handler("a", "act"))
    assert refusal(name) == f"app '{name}' can't be imported: there is no module {why} on the Python path"


@pytest.mark.parametrize(
    ("text", "last_line"),
    [
        ("\nimport no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("import shardclock\n1 / 0", "ZeroDivisionError: division by zero"),
        ("\ndef :", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit('bye')", "SystemExit: bye"),
        ("import json\njson.loads('')", "json.decoder.JSONDecodeError: Expecting value"),
    ],
    ids=["module", "error", "syntax", "exit", "deeper"],
)
def test_a_failing_module_is_refused_with_its_error_and_its_line(
    app: App, tmp_path: Path, text: str, last_line: str
) -> None:
    app("broken.py", text)

    said = refusal("broken")
    assert said.startswith(f"app 'broken' can't be imported: {last_line}")
    assert said.endswith(f", in {tmp_path / 'broken.py'}:2; correct this error first")


def test_an_error_in_an_imported_module_is_reported_with_that_modules_line(app: App, tmp_path: Path) -> None:
    app("deep.py", "\n\n1 / 0")
    app("broken.py", "import deep")

    assert refusal("broken").endswith(f"by zero, in {tmp_path / 'deep.py'}:3; correct this error first")


def test_a_module_without_handlers_is_refused(app: App) -> None:
    app("empty.py", "import shardclock")

    assert refusal("empty") == (
        "app 'empty' has no handlers and no jobs; decorate its functions with @shardclock.on_timer or @shardclock.job,"
        " or name the module that has them"
    )


def test_a_missing_function_is_refused_with_the_names_of_the_handlers(app: App) -> None:
    app("reminders.py", REMINDERS)

    assert refusal("reminders:remember") == (
        "handler reminders:remember is not there; the handlers of reminders are remind, aggregate"
    )
    assert refusal("reminders:helper") == (
        "handler reminders:helper has no @shardclock.on_timer above it; the handlers of reminders are remind, aggregate"
    )


def test_two_apps_with_one_target_are_refused_with_both_functions(app: App) -> None:
    app("one.py", handler("a", "act"))
    app("other.py", handler("a", "act"))

    assert refusal("one", "other") == (
        "target 'a' is taken: one:act has it, so other:act can't have it; give each function its own target"
    )


@pytest.mark.parametrize(
    "text",
    [
        handler("a", "act").replace("@", "def shout(function): return lambda timer: None\n@shout\n@"),
        handler("a", "act") + handler("b", "act"),
        handler("a", "act") + "del act",
    ],
    ids=["decorated", "shadowed", "deleted"],
)
def test_a_handler_that_its_module_hides_is_refused(app: App, text: str) -> None:
    app("hides.py", text)

    assert refusal("hides") == (
        "handler hides:act of target 'a' is hidden: its module has another object with this name; make @on_timer the"
        " outermost decorator, and give each handler its own name"
    )


def test_a_description_of_handlers_is_json(app: App) -> None:
    app("reminders.py", REMINDERS)

    described = describe(find_handlers(["reminders"]).values())

    assert json.loads(json.dumps(described)) == described
    assert described[1] == {
        "target": "rows.aggregated",
        "reference": "reminders:aggregate",
        "is_async": False,
        "takes_batch": True,
        "policy": {
            "max_attempts": 20,
            "timeout_s": 30.0,
            "retry_min_s": 1.0,
            "retry_max_s": 3_600.0,
            "give_up_after_s": None,
            "expires_after_s": None,
            "concurrency": None,
            "rate_per_s": None,
            "batch": 500,
            "priority": 2,
            "num_cpus": None,
            "memory_mib": 256,
        },
    }


def test_installed_packages_name_their_apps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        info = tmp_path / f"shop{number}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: shop{number}\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[shardclock.handlers]\norders = shop.orders\nact = shop:act\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert installed_apps() == ["shop.orders", "shop:act"]


def test_the_page_install_shows_a_package_that_names_its_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(
        r"^```toml\n(.*?)^```$", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE | re.DOTALL
    )
    project = tomllib.loads(example)["project"]
    info = tmp_path / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)

    assert installed_apps() == ["shop.orders"]


def test_each_public_name_of_the_package_exists() -> None:
    assert [name for name in shardclock.__all__ if not hasattr(shardclock, name)] == []
