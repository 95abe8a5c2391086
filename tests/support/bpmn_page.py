"""Write docs/bpmn-elements.md from the models of tests/engine/models: each element with its model and its history."""

from __future__ import annotations

import json
import sys

from tests.support import ROOT
from tests.support.bpmn_models import ElementModel, Folder, folders

PAGE = ROOT / "docs" / "bpmn-elements.md"
LINK = "../tests/engine/models"
HEAD = """\
# BPMN, element by element

<!-- Written by `make docs` from tests/engine/models: change those, and write it anew. -->

Each element has a small model, and the history of an instance of it, move by move. The histories are those that
Camunda 8's documentation leads to; a test deploys each model, makes the moves on a cluster, and compares the whole
history. What a model may say besides is in [BPMN](bpmn.md).

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
## What is different from Camunda 8

* Without `retries`, a job has as many attempts as its handler's or endpoint's policy says, and not three.
* A business rule task is a job. With a `zeebe:calledDecision` alone it is refused.
* Links, compensation, conditional events, listeners and ad-hoc sub-processes are refused, as above.
"""


def written() -> str:
    """Write the page."""
    return "\n".join([HEAD, *map(_section, folders()), DIFFERENT])


def _section(folder: Folder) -> str:
    if folder.models[0].refused:
        lines = [REFUSED, "| what | model | sentence |", "|---|---|---|"]
        lines += [f"| {it.element} | {_link(it)} | {it.refused} |" for it in folder.models]
    else:
        lines = ["| element | model | what happens | move | history |", "|---|---|---|---|---|"]
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
