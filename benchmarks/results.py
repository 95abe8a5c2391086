"""Store the figures of runs as JSON, and show each figure as its median and its spread."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.cases.case import Case, Figure
from benchmarks.contenders import LIMITS
from benchmarks.contenders.contender import Contender
from charts.units import format_value


@dataclass
class Measured:
    """All runs of one contender in one case: `figures` has a value for each run; `note` explains a missing value."""

    case: str
    contender: str
    version: str
    settings: str
    figures: dict[str, list[float]] = field(default_factory=dict)
    note: str = ""

    def add(self, figures: Mapping[str, float]) -> None:
        """Add a run."""
        for key, value in figures.items():
            self.figures.setdefault(key, []).append(value)

    def tells(self, figures: Sequence[Figure]) -> bool:
        """Return whether the contender has a value for at least one of these figures."""
        return any(figure.key in self.figures for figure in figures)

    def told(self, figure: Figure) -> str:
        """Format a figure: the median, with the least and the greatest value of the runs."""
        values = self.figures.get(figure.key, [])
        if not values:
            return "—"
        middle, low, high = (format_value(value, figure.unit) for value in (median(values), min(values), max(values)))
        return middle if low == high else f"{middle} ({low} to {high})"


@dataclass
class Results:
    """The results of machines with equal hardware and versions; `runs` has the time and the machine of each case's run.

    All results of a case come from one run.
    """

    machine: dict[str, str]
    measured: list[Measured] = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)

    def begin(self, case: Case, run: str) -> None:
        """Remove a case's earlier results."""
        self.measured = [it for it in self.measured if it.case != case.name]
        self.runs[case.name] = run

    def of(self, case: Case, contender: Contender) -> Measured:
        """Return the results of a contender in a case; create them if they are missing."""
        for it in self.measured:
            if (it.case, it.contender) == (case.name, contender.name):
                return it
        it = Measured(case.name, contender.name, contender.version, contender.settings)
        self.measured.append(it)
        return it

    def in_case(self, name: str) -> Sequence[Measured]:
        """List the results of a case, one for each contender."""
        return [it for it in self.measured if it.case == name]

    def save(self, file: Path) -> None:
        """Write the results to a file, as JSON."""
        file.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, file: Path) -> Results:
        """Read results from a file."""
        read = json.loads(file.read_text())
        return cls(read["machine"], [Measured(**it) for it in read["measured"]], read["runs"])


def table(figures: Sequence[Figure], rows: Iterable[Measured]) -> str:
    """Write a Markdown table: a row for each contender, a column for each figure, the best (without limits) bold."""
    rows = list(rows)
    best = {figure.key: _best(figure, rows) for figure in figures}
    lines = ["| | " + " | ".join(figure.title for figure in figures) + " |", "|---" * (len(figures) + 1) + "|"]
    for row in rows:
        if row.note and not row.tells(figures):
            lines.append(f"| {row.contender} | {row.note} |" + " |" * (len(figures) - 1))
            continue
        cells = [f"**{row.told(it)}**" if best[it.key] is row else row.told(it) for it in figures]
        lines.append(f"| {row.contender} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _best(figure: Figure, rows: Sequence[Measured]) -> Measured | None:
    told = [row for row in rows if row.figures.get(figure.key) and row.contender not in LIMITS]
    if len(told) < 2 or not figure.compared:
        return None
    choose = max if figure.more_is_better else min
    return choose(told, key=lambda row: median(row.figures[figure.key]))
