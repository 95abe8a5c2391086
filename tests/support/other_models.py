"""Models from the tests of other engines, in a directory beside the project's; the directory may be missing."""

from tests.support import ROOT

MODELS = ROOT.parent / "shared" / "cases" / "bpmn"
# The words of a refusal that name the needed change; the other models run.
REFUSED = {
    "04_": ("no condition; add a condition", "no start events"),  # a drawing that was not meant to run
    "12_": ("only in an event sub-process, not in a sub-process", "2 start events"),
    "24_": ("can't be a timeCycle", "can't start after a timeDuration", "its start event must have a trigger"),
    "34_": ("the script's language is 'groovy'",),
    "38_": ('isExecutable="true"', "'${StartDate}/PT10S' mixes text and an expression"),
    "44_": ("the signal 'startSignal', which the model does not have",),
    "48_": ('isExecutable="true"', "'2s' is not an ISO 8601 duration"),
    "54_": ("can't start after a timeDuration",),
    "58_": ("the element refers to no message",),
}


def names() -> list[str]:
    """List the files' names, in order; the list is empty if they don't exist."""
    return sorted(path.name for path in MODELS.glob("*") if path.suffix in {".bpmn", ".bpmn2", ".xml"})
