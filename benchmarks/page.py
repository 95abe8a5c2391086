"""Write the page of results: the machine, the commands, and a table and a picture for each case."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import draw
from benchmarks.cases import CASES
from benchmarks.results import Results, table

NUMBERS = "results.json"


class OtherMachine(Exception):
    """A folder has results of another machine or of other versions; the message names the difference and the remedy."""


def read(folder: Path, machine: dict[str, str]) -> Results:
    """Read the results of earlier runs from a folder, so that new results can be added.

    errors:  OtherMachine  the results were measured on another machine, or with other versions
    """
    if not (folder / NUMBERS).exists():
        return Results(machine)
    results = Results.load(folder / NUMBERS)
    for name, value in machine.items():
        if results.machine.get(name) != value:
            raise OtherMachine(
                f"{folder} was measured with {name} {results.machine.get(name)}, this is {value}:"
                " name another folder, or delete it and measure all cases again"
            )
    return results


def write(results: Results, folder: Path) -> Path:
    """Write the page, the pictures and the figures into a folder; return the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    results.save(folder / NUMBERS)
    page = folder / "README.md"
    page.write_text("\n".join(_lines(results, folder)))
    return page


def _lines(results: Results, folder: Path) -> Iterator[str]:
    yield "# Benchmarks\n"
    yield (
        "One run measures all contenders of a case, one after the other. Each contender has an empty database on the"
        " same Postgres server, with default settings. Each round repeats the whole run. Figures are medians of the"
        " rounds, with the smallest and the greatest value in brackets; the best value of a column is bold. `The"
        " statement alone` and `our SQL alone` are limits, not contenders: they run our SQL in a loop, without any"
        " other code. A warm server reuses files of its write-ahead log. A new server first fills each new file with"
        " zeros, and all commits wait for it. Compare only figures of one case: on some days, machines with the same"
        " name are twice as fast as on other days.\n"
    )
    yield (
        f"In `{CASES['handled'].title}` and `{CASES['called'].title}` each contender calls a handler, which does"
        " nothing. In all other cases, a timer of Shardclock counts as fired when its record is written to the log, and"
        " a job of a peer when its handler is called, before the peer marks the job as done. This difference favours"
        " the peers.\n"
    )
    yield "| | |\n|---|---|"
    yield from (f"| {name} | {value} |" for name, value in results.machine.items())
    yield "\n| contender | version | settings |\n|---|---|---|"
    seen = {(it.contender, it.version, it.settings) for it in results.measured}
    order = {it.contender: number for number, it in reversed(list(enumerate(results.measured)))}
    yield from ("| " + " | ".join(row) + " |" for row in sorted(seen, key=lambda row: order[row[0]]))
    for case in CASES.values():
        if rows := results.in_case(case.name):
            rounds = max(len(values) for row in rows for values in (*row.figures.values(), ()))
            how_often = f"{rounds} round{'s' if rounds > 1 else ''}"
            yield f"\n## {case.title}\n\n{case.about} {results.runs[case.name]}; {how_often}.\n"
            for part in case.parts:
                title = part.title or case.title
                picture = f"{case.name}-{part.key}.svg" if part.key else f"{case.name}.svg"
                (folder / picture).write_text(draw(title, part, rows))
                yield f"![{title}]({picture})\n"
                yield table(part.figures, rows)
    yield "\n## Do it again\n\n<!-- not run: takes eight hours, and wants the machine for itself -->\n"
    yield "```console\n$ make bench-peers bench-peers-go bench-peers-jvm\n$ make bench\n```\n"
    yield "This command measures one case alone, and replaces the case's section on this page:\n"
    yield "<!-- not run: the same -->\n"
    yield "```console\n$ python -m benchmarks drain --to docs/benchmarks\n```\n"
