"""Run the calculation of docs/operate/scale.md: its code block prints the page's figures."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections import Counter
from typing import Any

from tests.support import ROOT

PAGE = (ROOT / "docs" / "operate" / "scale.md").read_text()
SHOWN = re.compile(
    r"^```python\n(?P<code>.*?)^```\n+The block prints:\n+```text\n(?P<said>.*?)^```$", re.MULTILINE | re.DOTALL
)
SLOTS = 840


def run() -> tuple[dict[str, Any], str]:
    """Run the page's block; return its names, and its output."""
    (block,) = SHOWN.finditer(PAGE)
    names: dict[str, Any] = {"__name__": "__main__"}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(block["code"], "docs/operate/scale.md", "exec"), names)
    return names, said.getvalue()


def test_the_arithmetic_prints_the_output_on_the_page() -> None:
    (block,) = SHOWN.finditer(PAGE)

    assert run()[1] == block["said"]


def test_the_table_of_measured_costs_has_the_inputs_of_the_arithmetic() -> None:
    names, _ = run()
    table = PAGE[: PAGE.index("```python")]

    read = names["PLAIN"]["read"]
    assert names["HANDLED"]["read"] == (2 * read[0], 0), "two records: the firing and the end"
    costs = [*names["PLAIN"].values(), *(cost for part, cost in names["HANDLED"].items() if part != "read")]
    assert [us for us, _ in costs if f"{us:.2g} µs" not in table] == []
    assert [wal for _, wal in costs if wal and f"{wal} B" not in table] == []
    assert all(f"{size} B" in table for size in (names["ROW"], names["INDEXES"], names["RECORD"] - names["ROW"]))
    assert f"{names['REDO_MB_S']} MB/s" in table


def test_the_arithmetic_prints_each_computed_number_in_the_text() -> None:
    (block,) = SHOWN.finditer(PAGE)
    named = re.findall(r"\*\*([\d,.]+)\*\*", PAGE)

    assert named, "the page marks its computed numbers"
    assert [number for number in named if number not in re.findall(r"[\d,.]*\d", block["said"])] == []


def test_shards_on_several_databases_all_have_work_only_if_the_numbers_have_no_common_divisor() -> None:
    """Give a database only the slots with one remainder, although the shards of the database share all 840 slots."""

    def with_work(databases: int, shards: int) -> int:
        return len({slot % shards for slot in range(SLOTS) if slot % databases == 0})

    assert with_work(databases=10, shards=20) == 2
    assert with_work(databases=10, shards=21) == 21
    assert all(with_work(10, shards) == shards // math.gcd(shards, 10) for shards in range(1, 85))


def test_shards_have_the_same_number_of_slots_if_their_number_divides_840() -> None:
    def busiest(shards: int) -> int:
        return max(Counter(slot % shards for slot in range(SLOTS)).values())

    assert [busiest(shards) for shards in (168, 200, 210, 280)] == [5, 5, 4, 3]
