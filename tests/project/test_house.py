"""Test rules for the whole project: names, files, locked packages, versions of Python."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator

import pytest

from tests.support import PACKAGE_NAMES, ROOT
from tests.support.durations import LONG_FILES, TAKES_S
from tools import bpmn_page, openapi, refusals_page, sql_reference, unasync

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLIENT = "shardclock-client"
PYTHON = "Programming Language :: Python :: 3."
TEST_FILES = sorted((ROOT / "tests").rglob("test_*.py"))
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]+(?:\([^)]*\)|[^\n]*)|import[ \t]+[^\n]*)", re.MULTILINE
)
GENERATED_PAGES = {module.PAGE for module in (bpmn_page, openapi, refusals_page, sql_reference)}
GENERATED_CLIENTS = {
    unasync.FOLDER / folder / f"sync_{name}.py" for folder, names in unasync.NAMES.items() for name in names
}
PAGE = re.compile(r"\bdocs/\w|\b[\w-]+\.md\b")  # wheels contain no page of docs/
# This module writes a dashboard with links to pages; the operator gives the address of the pages.
OPENS_PAGES = {"k8s/monitoring/dashboards/grafana.py"}
TEST_LINES_MAX = 400  # a longer file is hard to read, and pytest-xdist gives a file to one worker

# Python 3.12.0 and 3.12.1 crash while they compile 19 nested blocks; each item of a `with` counts as a block, and the
# body may contain more blocks.
WITH_ITEMS_MAX = 17

# Old words of the project, which terms of the field have replaced; docs/architecture.md has the glossary.
REPLACED_WORDS = {
    "bell", "bells", "brisk", "guest", "guests", "heir", "heirs", "lately", "tally", "walk", "walks", "wards",
}  # fmt: skip

# Texts that refer to one machine or one package index; the brackets prevent a match with this file itself.
TIES = re.compile(
    r"/(?:wor[k]|roo[t])/|/(?:home|Users)/\w+/|file://[/]|https?://[^/\s]+/simpl[e]\b"
    r"|https?://registr[y]\.|--(?:extra-)?index-ur[l]|--find-link[s]"
)


def test_no_tracked_file_names_this_machine_or_a_package_index() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    named = [
        f"{name}: {found.group()}"
        for name in listed.stdout.split("\0")
        if (ROOT / name).is_file()
        for found in TIES.finditer((ROOT / name).read_text(errors="replace"))
    ]
    assert named == []


def test_gitattributes_marks_exactly_the_clients_and_the_pages_that_make_docs_writes() -> None:
    files = sorted({*(ROOT / "client").rglob("sync_*.py"), *GENERATED_PAGES})
    listed = subprocess.run(
        ["git", "check-attr", "linguist-generated", *files], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")

    marked = {line.partition(": ")[0] for line in listed.stdout.splitlines() if line.endswith(": set")}

    assert marked == {str(path) for path in GENERATED_PAGES | GENERATED_CLIENTS}


def test_no_message_names_a_page_that_an_installation_from_wheels_lacks() -> None:
    files = [file for name in (*PACKAGE_NAMES, "client") for file in sorted((ROOT / name).rglob("*.py"))]
    named = [
        f"{file.relative_to(ROOT)}: {text}"
        for file in files
        if file.relative_to(ROOT).as_posix() not in OPENS_PAGES and PAGE.search(file.read_text())
        for text in _messages_of(ast.parse(file.read_text()))
        if PAGE.search(text)
    ]
    others = [*sorted((ROOT / "sql").rglob("*.sql")), *sorted((ROOT / "gateway").rglob("*.html"))]
    named += [file.name for file in others if PAGE.search(re.sub(r"--.*", "", file.read_text()))]
    assert named == []


@pytest.mark.parametrize(
    "code", ['raise Refusal(f"{name}: see docs/run.md")', 'def f():\n    """D."""\n    g("run.md")']
)
def test_the_check_finds_a_page_in_a_message_and_not_in_a_docstring(code: str) -> None:
    assert [text for text in _messages_of(ast.parse(code)) if PAGE.search(text)] != []
    assert list(_messages_of(ast.parse('def f():\n    """See docs/run.md."""  # docs/run.md'))) == []


def _messages_of(tree: ast.Module) -> Iterator[str]:
    """Yield the string constants of a module that are not docstrings."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def test_no_test_file_has_too_many_lines() -> None:
    lines = {file.relative_to(ROOT).as_posix(): len(file.read_text().splitlines()) for file in TEST_FILES}
    assert {name: count for name, count in lines.items() if count > TEST_LINES_MAX} == {}


def test_the_listed_long_files_exist() -> None:
    named = LONG_FILES | TAKES_S.keys()

    assert sorted(name for name in named if not (ROOT / "tests" / name).is_file()) == []


def test_no_with_statement_has_more_items_than_every_python_version_can_compile() -> None:
    files = [path for name in (*PACKAGE_NAMES, "client") for path in (ROOT / name).rglob("*.py")]
    texts = {path: path.read_text() for path in files}
    many = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, text in texts.items()
        if "with (" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.With | ast.AsyncWith) and len(node.items) > WITH_ITEMS_MAX
    ]
    assert many == []


def texts_of_tests() -> Iterator[tuple[str, str]]:
    for file in sorted((ROOT / "tests").rglob("*.py")):
        yield file.relative_to(ROOT).as_posix(), file.read_text()


def test_no_file_imports_from_a_test_file() -> None:
    test_names = {file.stem for file in TEST_FILES}
    imported = [
        f"{file}: {name}"
        for file, text in texts_of_tests()
        for found in IMPORT.finditer(text)
        for name in re.findall(r"\w+", found.group())
        if name in test_names
    ]
    assert imported == []


@pytest.mark.parametrize(
    "text", ["import tests.a.test_b as b", "from tests.a import (\n    c,\n    test_b,\n)", "    from .test_b import c"]
)
def test_the_check_finds_each_form_of_an_import(text: str) -> None:
    assert [found.group() for found in IMPORT.finditer(f"x = 1\n{text}\ntest_b = 2\n")] == [text]


def test_no_name_in_the_tests_contains_a_replaced_word() -> None:
    words = re.compile(rf"(?<![a-z])(?:{'|'.join(REPLACED_WORDS)})(?![a-z])", re.IGNORECASE)
    named = [
        f"{file}: {name}"
        for file, text in texts_of_tests()
        if words.search(text)  # parsing each file would take seconds
        for node in ast.walk(ast.parse(text))
        for name in _defined_by(node)
        if REPLACED_WORDS & set(name.lower().split("_"))
    ]
    assert named == []


def _defined_by(node: ast.AST) -> list[str]:
    """Return the name of the function, class, parameter or variable that a node defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    return []


def test_every_locked_package_has_a_version_and_a_hash_and_no_host() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    entries = re.split(r"\n(?=\S)", lock.strip())
    assert [entry for entry in entries if not re.match(r"[\w.-]+==\S+ .*\\\n +--hash=sha256:", entry)] == []


def test_the_lock_has_every_dependency_of_the_project() -> None:
    locked = {
        _normal(name) for name in re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    }
    project = PYPROJECT["project"]
    asked = [
        *project["dependencies"],
        *project["optional-dependencies"]["dev"],
        *PYPROJECT["build-system"]["requires"],
    ]
    named = {_normal(re.split(r"[<>=\[ ]", name)[0]) for name in asked}
    assert named - locked == {CLIENT}, "the client is in this tree"


def test_no_locked_package_builds_grammars_in_each_process_that_imports_ray() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "\njsonschema==" in lock  # jsonschema, which Ray imports, imports rfc3987-syntax if it is installed
    assert "\nrfc3987-syntax==" not in lock


def test_all_files_name_the_same_versions_of_python() -> None:
    project = PYPROJECT["project"]
    classified = [it.rpartition(".")[2] for it in project["classifiers"] if it.startswith(PYTHON)]
    (oldest, after) = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()  # type: ignore[union-attr]
    assert classified == [str(minor) for minor in range(int(oldest), int(after))]
    newest = classified[-1]

    makefile, ci = (ROOT / "Makefile").read_text(), (ROOT / ".ci" / "run").read_text()
    assert f"(3, {oldest}) <= v <= (3, {newest})" in makefile
    assert f"--universal --python-version 3.{oldest} " in makefile, "the lock is for the oldest and all after it"
    assert " ".join(f"python3.{minor}" for minor in classified) in ci
    assert f"Python 3.{oldest} to 3.{newest}" in (ROOT / "CONTRIBUTING.md").read_text()
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]
    assert client["requires-python"] == project["requires-python"]
    assert [it for it in client["classifiers"] if it.startswith(PYTHON)] == [f"{PYTHON}{it}" for it in classified]
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py3{oldest}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == f"3.{oldest}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
