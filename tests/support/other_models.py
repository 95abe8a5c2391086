"""Models with which other engines are tested: they lie beside the project, if they are there."""

from tests.support import ROOT

MODELS = ROOT.parent / "shared" / "cases" / "bpmn"
# Which words of the refusal tell the author what to change; the others run.
REFUSED = {
    "04_": ("no condition; write one", "no start events"),  # drawn, never meant to run
    "12_": ("a start event in a sub-process has no trigger", "2 start events"),
    "24_": ("not a timeCycle", "not after a timeDuration", "exactly one start event, with a trigger"),
    "34_": ("its language is 'groovy'",),
    "38_": ('isExecutable="true"', "'${StartDate}/PT10S' mixes text and an expression"),
    "44_": ("the signal 'startSignal', which the model doesn't have",),
    "48_": ('isExecutable="true"', "'2s' is not an ISO 8601 duration"),
    "54_": ("not after a timeDuration",),
    "58_": ("it refers to no message",),
}


def names() -> list[str]:
    """Name the files, in their order; none if they are not there."""
    return sorted(path.name for path in MODELS.glob("*") if path.suffix in {".bpmn", ".bpmn2", ".xml"})
