"""Write docs/bpmn-elements.md from the models of tests/engine/models: each element with its model and its history."""

from __future__ import annotations

import json
import sys
from collections import defaultdict

from shardclock_server.bpmn.model.support import SupportRule, SupportTable, camunda_7, camunda_8, standard
from tests.support import ROOT
from tests.support.bpmn_models import ElementModel, Folder, folders

PAGE = ROOT / "docs" / "bpmn-elements.md"
LINK = "../tests/engine/models"
HEAD = """\
# BPMN, element by element

<!-- Written by `make docs` from tests/engine/models: change those, and write it anew. -->

Each element has a small model, and the history of an instance of it, move by move. The histories follow
Camunda 8's documentation; a test deploys each model, makes the moves on a cluster, and compares the whole history.
[BPMN](bpmn.md) has the other rules for a model.

`pack+` means that a token enters the node `pack`, `pack-` that it leaves, `packx` that it is terminated. Where a move
lets several instances go on, ` / ` stands between their histories. Of tokens that go on at the same time, the order
is ours. The moves: an instance is started, with variables; the clock is moved; a user task is completed; the job of a
service task is done, failed, or ended by an error's code; a message comes with its correlation key, or a signal;
variables are set; an incident is resolved. The clock begins at 08:00 on 1 March 2026.
"""
REFUSED = """\
A model that has one of these is refused when it is deployed, with the sentence, and nothing of it is kept.
"""
DIFFERENT = """\
## Differences from Camunda 8

* Without `retries`, a job has the attempts of its handler's or endpoint's policy, and not three.
* A business rule task is a job: decisions aren't evaluated. With a `zeebe:calledDecision` it is refused.
* Links, compensation, conditional events, listeners and ad-hoc sub-processes are refused, as above.
"""


EXTENSIONS = """\
## The support for each attribute and element

Each attribute and element of other engines and of BPMN is read, ignored or refused. Without a place, this holds at
every element. An attribute with some accepted values is refused with any other.
"""
TABLES = (
    ("Camunda 8: `zeebe`", camunda_8.ATTRIBUTES, camunda_8.ELEMENTS),
    ("Camunda 7 and its kin: `camunda`, `operaton`, `activiti`, `flowable`", camunda_7.ATTRIBUTES, camunda_7.ELEMENTS),
    ("BPMN itself", standard.ATTRIBUTES, standard.ELEMENTS),
)


def written() -> str:
    """Write the page."""
    return "\n".join([HEAD, *map(_section, folders()), DIFFERENT, EXTENSIONS, *(_table(*table) for table in TABLES)])


def _table(title: str, attributes: SupportTable, elements: SupportTable) -> str:
    lines = ["| kind | names | support | at | reason, or end of the refusal |", "|---|---|---|---|---|"]
    for kind, table in (("attributes", attributes), ("elements", elements)):
        rows: defaultdict[SupportRule, list[str]] = defaultdict(list)
        for name, rules in table.items():
            for rule in rules:
                rows[rule].append(f"`{name}`")
        lines += [f"| {kind} | {', '.join(sorted(names))} | {_support(rule)} |" for rule, names in rows.items()]
    return "\n".join([f"### {title}\n", *lines, ""])


def _support(rule: SupportRule) -> str:
    accepted = f" if it is {' or '.join(f'`{value}`' for value in sorted(rule.values))}" if rule.values else ""
    return f"{rule.support}{accepted} | {', '.join(sorted(rule.hosts))} | {rule.reason.replace('|', chr(92) + '|')}"


def _section(folder: Folder) -> str:
    if folder.models[0].refused:
        lines = [REFUSED, "| element | model | sentence |", "|---|---|---|"]
        lines += [f"| {it.element} | {_link(it)} | {it.refused} |" for it in folder.models]
    else:
        lines = ["| element | model | effect | move | history |", "|---|---|---|---|---|"]
        lines += [line for it in folder.models for line in _rows(it)]
    return "\n".join([f"## {folder.title}\n", *lines, ""])


def _rows(it: ElementModel) -> list[str]:
    says = it.says
    if it.incident is not None:
        says += f" *{it.incident}*"
    if it.result is not None:
        says += f" In the end: `{json.dumps(it.result)}`"
    firsts = [f"{it.element} | {_link(it)} | {says}"] + [" | | "] * (len(it.moves) - 1)
    return [f"| {first} | `{move}` | {_history(went)} |" for first, (move, went) in zip(firsts, it.moves, strict=True)]


def _history(went: str) -> str:
    return f"`{went.replace(' | ', ' / ')}`" if went else "nothing"


def _link(it: ElementModel) -> str:
    return f"[{it.name}]({LINK}/{it.path})"


if __name__ == "__main__":
    PAGE.write_text(written())
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
