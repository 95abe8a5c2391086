"""Models from the tests of other engines, in a directory beside the project's; the directory may be missing."""

from tests.support import ROOT

MODELS = ROOT.parent / "shared" / "cases" / "bpmn"
# The words of a refusal that name the needed change; the other models run.
REFUSED = {
    "04_": ("no condition; write one", "no start events"),  # a drawing that was not meant to run
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
    """List the files' names, in order; the list is empty if they don't exist."""
    return sorted(path.name for path in MODELS.glob("*") if path.suffix in {".bpmn", ".bpmn2", ".xml"})
