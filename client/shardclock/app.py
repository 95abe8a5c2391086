"""Find the handlers and jobs of an app: a module with the modules below it, or a single function."""

import importlib
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from shardclock.handler import Handler, declared
from shardclock.jobs import Job, declared_jobs
from shardclock.outline import outline_of
from shardclock.reason import one_line
from shardclock.refusal import InvalidHandler, shown

ENTRY_POINTS = "shardclock.handlers"
REFERENCE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?::(?P<function>[^\W\d]\w*))?")
LISTED_MAX = 5
IMPORTLIB, OURS = Path(importlib.__file__).parent, Path(__file__).parent
LIBRARIES = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]


@dataclass(slots=True)
class Declarations:
    """The declarations of an app: its handlers by target, its jobs by name."""

    handlers: dict[str, Handler] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)


def find_declared(apps: Iterable[str]) -> Declarations:
    """Import apps, each named as `package.module` or `package.module:function`, and return their declarations.

    errors:  InvalidHandler  an app can't be imported or declares nothing, or another process could not find a function
    """
    found = Declarations()
    for app in apps:
        reference = REFERENCE.fullmatch(app.strip())
        if reference is None:
            raise InvalidHandler(
                f"app {shown(app)} is refused: it must be package.module or package.module:function, as in an import"
            )
        module = _imported(app, reference["module"])
        whole = _declared_in(module)
        part = whole if reference["function"] is None else _single(module, reference["function"], whole)
        found.handlers |= part.handlers
        found.jobs |= part.jobs
    return found


def left_out_of(found: Declarations) -> list[str]:
    """Name the modules that this process has imported with handlers or jobs, none of which is in `found`.

    shape:   sorted; empty if each imported module is part of the app
    """

    def modules(*parts: Iterable[Handler | Job]) -> set[str]:
        return {it.function.__module__ for part in parts for it in part}

    return sorted(modules(declared(), declared_jobs()) - modules(found.handlers.values(), found.jobs.values()))


def find_handlers(apps: Iterable[str]) -> dict[str, Handler]:
    """Import apps as `find_declared` does, and return their handlers by target."""
    return find_declared(apps).handlers


def find_jobs(apps: Iterable[str]) -> dict[str, Job]:
    """Import apps as `find_declared` does, and return their jobs by name."""
    return find_declared(apps).jobs


def handlers_of(module: ModuleType) -> dict[str, Handler]:
    """Return the handlers of a module by target, with the handlers that it imports and the handlers of its submodules.

    Only submodules that are already imported are searched, so a package's `__init__` must import its modules with
    handlers.

    errors:  InvalidHandler  the module declares nothing, or another process could not find one of the handlers
    """
    return _declared_in(module).handlers


def installed_apps() -> list[str]:
    """List the apps that installed packages name in their entry points of the group `shardclock.handlers`."""
    return sorted({entry_point.value for entry_point in entry_points(group=ENTRY_POINTS)})


def describe(handlers: Iterable[Handler]) -> list[dict[str, Any]]:
    """Convert handlers to JSON values, for a process that doesn't import the app.

    units:   the durations of the policy are in seconds
    """
    return [
        {
            "target": handler.target,
            "reference": handler.reference,
            "is_async": handler.is_async,
            "takes_batch": handler.takes_batch,
            "policy": asdict(handler.policy),
        }
        for handler in handlers
    ]


def describe_jobs(jobs: Iterable[Job]) -> list[dict[str, Any]]:
    """Convert jobs to JSON values, for a process that doesn't import the app.

    units:   durations are in seconds
    """
    return [
        {
            "name": job.name,
            "reference": job.reference,
            "every_s": job.every_s,
            "schedule": job.schedule,
            "zone": job.zone,
            "missed": job.missed,
            "overlap": job.overlap,
            "priority": job.priority,
            "config": job.config,
            "config_outline": outline_of(job.adapter),
            "policy": asdict(job.policy),
        }
        for job in jobs
    ]


def _imported(app: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except InvalidHandler:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise InvalidHandler(
                f"app {shown(app)} can't be imported: there is no module {shown(error.name)};"
                f" {_suggestion(app, name)} that its folder is on the Python path"
            ) from None
        last_line = one_line(traceback.format_exception_only(error)[-1])
        raise InvalidHandler(
            f"app {shown(app)} can't be imported: {last_line}{_where(error)}; correct this error first"
        ) from error


def _suggestion(app: str, name: str) -> str:
    """Suggest a correction for a missing module; if a file name was given, suggest the module's name."""
    module = name.removesuffix(".py")
    if module == name:
        return "check its name, and"
    return f"write {one_line(app.replace(name, module, 1))}, without .py, and check"


def _where(error: BaseException) -> str:
    """Return the line of the user's own code (not of a library) at which an import failed."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        return f", in {one_line(error.filename)}:{error.lineno}"
    places = [(Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    places = [(file, line) for file, line in places if file.is_file() and not _is_below(file, IMPORTLIB, OURS)]
    own = [(file, line) for file, line in places if not _is_below(file, *LIBRARIES)] or places
    return f", in {one_line(str(own[-1][0]))}:{own[-1][1]}" if own else ""


def _is_below(file: Path, *folders: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in folders)


def _declared_in(module: ModuleType) -> Declarations:
    name = module.__name__
    named = {id(value) for value in vars(module).values()}

    def is_of_it(it: Handler | Job) -> bool:
        return f"{it.function.__module__}.".startswith(f"{name}.") or id(it.function) in named

    handlers = [handler for handler in declared() if is_of_it(handler)]
    jobs = [job for job in declared_jobs() if is_of_it(job)]
    if not handlers and not jobs:
        raise InvalidHandler(
            f"app {shown(name)} has no handlers and no jobs; decorate its functions with @shardclock.on_timer or"
            " @shardclock.job, or name the module that has them"
        )
    for handler in handlers:
        _require_findable(handler)
    for job in jobs:
        _require_findable(job)
    return Declarations({it.target: it for it in handlers}, {it.name: it for it in jobs})


def _single(module: ModuleType, name: str, whole: Declarations) -> Declarations:
    function = getattr(module, name, None)
    found = Declarations(
        {target: it for target, it in whole.handlers.items() if it.function is function},
        {name: it for name, it in whole.jobs.items() if it.function is function},
    )
    if function is not None and (found.handlers or found.jobs):
        return found
    functions = [it.function for it in whole.handlers.values()] + [it.function for it in whole.jobs.values()]
    others = [function.__name__ for function in functions]
    listed = ", ".join(others[:LISTED_MAX]) + (", …" if len(others) > LISTED_MAX else "")
    what = "is not there" if function is None else "has no @shardclock.on_timer above it"
    raise InvalidHandler(f"handler {module.__name__}:{name} {what}; the handlers of {module.__name__} are {listed}")


def _require_findable(it: Handler | Job) -> None:
    function = it.function
    if getattr(sys.modules.get(function.__module__), function.__name__, None) is function:
        return
    kind, decorator = ("handler", "@on_timer") if isinstance(it, Handler) else ("job", "@job")
    of_target = f" of target {shown(it.target)}" if isinstance(it, Handler) else ""
    raise InvalidHandler(
        f"{kind} {it.reference}{of_target} is hidden: its module has another object with this name; make {decorator}"
        f" the outermost decorator, and give each {kind} its own name"
    )
