"""Test that the pages name existing paths, that lists of pages are complete, and that pages are short."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PROMISES = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
OTHER_PAGES = sorted(
    {ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "architecture.md"}
)
# Paths on these pages that need not exist at the root.
NOT_OURS = {
    "src/shardclock_server/",  # docs/decisions/0002-one-import-name.md has the reason
    "components/cloudnative-pg/network.yaml",  # relative to k8s
    "cluster/kustomization.yaml",  # within an operator's overlay
    "dist/",  # `make wheels` makes it
}

PAGE_LINES_MAX = 250
RECORD_LINES_MAX = 60
# These pages may be longer, because a reader looks up single entries.
REFERENCES = {"architecture.md", "sql.md", "bpmn-elements.md", "feel.md", "security.md"}
LONGER = {"scale.md"}  # the page's arithmetic of a million timers a second is one table after the other

# `folder/file.py:name`, `folder/file.sql:name`, or a path alone; a folder ends with a slash.
REFERENCE = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.\w+)?)(?::([\w.]+))?`")
ROW = re.compile(r"^\| ([A-Z]\d+) \|(.*)\|$", re.MULTILINE)
MADE_BY_SQL = re.compile(
    r"^create (?:or replace |unique )?(?:function|view|table|index) (?:shardclock\.)?(\w+)", re.MULTILINE
)


def references(text: str) -> list[tuple[str, str]]:
    """List the paths in a text, each with its name within the file, or ""."""
    return sorted(set(REFERENCE.findall(text)))


@cache
def names_in(path: Path) -> frozenset[str]:
    """List the functions, classes and methods of a Python file, or the objects that an SQL file creates."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sql":
        return frozenset(MADE_BY_SQL.findall(text))
    names: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{it.name}" for it in node.body if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return frozenset(names)


def promised(text: str) -> set[str]:
    """List the promises in the table of promises.md; a row may have several."""
    rows = re.findall(r"^\| ((?:[A-Z]\d+(?:, )?)+) \|", text, re.MULTILINE)
    return {promise for row in rows for promise in row.split(", ")}


@pytest.mark.parametrize(("path", "name"), references(PAGE), ids=lambda it: it or "-")
def test_each_path_on_the_page_exists(path: str, name: str) -> None:
    assert (ROOT / path).exists()
    assert not name or name in names_in(ROOT / path)


@pytest.mark.parametrize("page", OTHER_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_path_on_another_page_exists(page: Path) -> None:
    named = [(path, name) for path, name in references(page.read_text(encoding="utf-8")) if path not in NOT_OURS]
    assert [path for path, _ in named if not (ROOT / path).exists()] == []
    assert [(path, name) for path, name in named if name and name not in names_in(ROOT / path)] == []


def test_the_pages_contain_many_paths() -> None:
    # If the pattern matched nothing, the tests above would pass without a check.
    assert len(references(PAGE)) > 50
    assert len(references((ROOT / "docs" / "where.md").read_text(encoding="utf-8"))) > 200
    assert len([page for page in OTHER_PAGES if references(page.read_text(encoding="utf-8"))]) > 10


def test_each_promise_has_a_row_with_its_code_and_its_test() -> None:
    rows = dict(ROW.findall(PAGE))
    assert set(rows) == promised(PROMISES)
    for promise, row in rows.items():
        named = references(row)
        assert [path for path, _ in named if not path.startswith("tests/")], f"{promise}: no code"
        assert [path for path, name in named if path.startswith("tests/") and name], f"{promise}: no test"


@pytest.mark.parametrize("folder", ["docs", "docs/decisions"])
def test_the_readme_of_a_folder_lists_each_page(folder: str) -> None:
    contents = ROOT / folder / "README.md"
    pages = {page.name for page in (ROOT / folder).glob("*.md")} - {contents.name}
    named = re.findall(r"\]\(([\w.-]+\.md)[)#]", contents.read_text(encoding="utf-8"))
    assert set(named) == pages


def test_a_page_has_at_most_250_lines_and_a_decision_at_most_60() -> None:
    pages = [page for folder in ("docs", "docs/operate") for page in (ROOT / folder).glob("*.md")]
    limits = {page: PAGE_LINES_MAX for page in pages if page.name not in REFERENCES | LONGER}
    records = set((ROOT / "docs" / "decisions").glob("*.md")) - {ROOT / "docs" / "decisions" / "README.md"}
    limits |= dict.fromkeys(records, RECORD_LINES_MAX)

    over = {page.name: lines for page, most in limits.items() if (lines := page.read_text().count("\n")) > most}

    assert not over, "split the page by its readers' tasks, or shorten the record"
