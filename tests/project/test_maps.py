"""Test that the docstring of each package names all its modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support import PACKAGE_NAMES, ROOT

PACKAGES = sorted(path.parent for name in PACKAGE_NAMES for path in (ROOT / name).rglob("__init__.py"))
# The modules of these packages are alike, and each is named after its subject.
OF_A_KIND = {"feel/functions", "cli"}
# A package with at most this many modules needs no map.
FEW = 2


def mapped() -> list[Path]:
    return [it for it in PACKAGES if it.relative_to(ROOT).as_posix() not in OF_A_KIND and len(modules_of(it)) >= FEW]


def modules_of(package: Path) -> set[str]:
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    return {path.stem for path in package.glob("*.py")} - {"__init__"} | folders


@pytest.mark.parametrize("package", mapped(), ids=lambda it: it.relative_to(ROOT).as_posix())
def test_a_package_s_docstring_names_each_of_its_modules(package: Path) -> None:
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert modules_of(package) - set(re.findall(r"\w+", said)) == set()


def test_there_are_packages_with_a_map() -> None:
    assert len(mapped()) > 30
