"""Hold the paths that pages name against the code, and each list of pages against the pages there are."""

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
# Paths that these pages name and that need not exist at the root.
NOT_OURS = {
    "src/shardclock_server/",  # docs/decisions/0002-one-import-name.md says why there is none
    "components/cloudnative-pg/network.yaml",  # within k8s, where an operator works
    "cluster/kustomization.yaml",  # within an operator's overlay
}

# `folder/file.py:name`, `folder/file.sql:name`, or a path alone; a folder ends with a slash.
REFERENCE = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.\w+)?)(?::([\w.]+))?`")
ROW = re.compile(r"^\| ([A-Z]\d+) \|(.*)\|$", re.MULTILINE)
MADE_BY_SQL = re.compile(
    r"^create (?:or replace |unique )?(?:function|view|table|index) (?:shardclock\.)?(\w+)", re.MULTILINE
)


def references(text: str) -> list[tuple[str, str]]:
    """List the paths that a text names, each with the name within it, or ""."""
    return sorted(set(REFERENCE.findall(text)))


@cache
def names_in(path: Path) -> frozenset[str]:
    """List what a file defines: functions, classes and methods of Python; functions, tables, views, indexes of SQL."""
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
    """List the promises that the table of promises.md names; one of its rows may name several."""
    rows = re.findall(r"^\| ((?:[A-Z]\d+(?:, )?)+) \|", text, re.MULTILINE)
    return {promise for row in rows for promise in row.split(", ")}


@pytest.mark.parametrize(("path", "name"), references(PAGE), ids=lambda it: it or "-")
def test_what_the_page_names_exists(path: str, name: str) -> None:
    assert (ROOT / path).exists()
    assert not name or name in names_in(ROOT / path)


@pytest.mark.parametrize("page", OTHER_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_any_other_page_names_exists(page: Path) -> None:
    named = [(path, name) for path, name in references(page.read_text(encoding="utf-8")) if path not in NOT_OURS]
    assert [path for path, _ in named if not (ROOT / path).exists()] == []
    assert [(path, name) for path, name in named if name and name not in names_in(ROOT / path)] == []


def test_the_pages_name_the_code() -> None:
    # Given a pattern that matches nothing any more, the tests above would be green for nothing
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
def test_a_folder_s_contents_name_each_of_its_pages(folder: str) -> None:
    contents = ROOT / folder / "README.md"
    pages = {page.name for page in (ROOT / folder).glob("*.md")} - {contents.name}
    named = re.findall(r"\]\(([\w.-]+\.md)[)#]", contents.read_text(encoding="utf-8"))
    assert set(named) == pages
