"""Find the handlers of an app: of a module, of the modules below it, or a single function."""

import importlib
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from shardclock.handler import Handler, declared
from shardclock.reason import one_line
from shardclock.refusal import InvalidHandler, shown

ENTRY_POINTS = "shardclock.handlers"
REFERENCE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?::(?P<function>[^\W\d]\w*))?")
LISTED_MAX = 5
IMPORTLIB, OURS = Path(importlib.__file__).parent, Path(__file__).parent
LIBRARIES = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]


def find_handlers(apps: Iterable[str]) -> dict[str, Handler]:
    """Import apps, each named as `package.module` or `package.module:function`, and return their handlers by target.

    errors:  InvalidHandler  an app can't be imported, has no handlers, or another process could not find one of them
    """
    found: dict[str, Handler] = {}
    for app in apps:
        reference = REFERENCE.fullmatch(app.strip())
        if reference is None:
            raise InvalidHandler(
                f"app {shown(app)} is refused: it must be package.module or package.module:function, as in an import"
            )
        module = _imported(app, reference["module"])
        found |= handlers_of(module) if reference["function"] is None else _single(module, reference["function"])
    return found


def handlers_of(module: ModuleType) -> dict[str, Handler]:
    """Return the handlers of a module, by target: its own, those of the modules below it, and those it imports by name.

    Modules below it count when they have been imported: a package's `__init__` imports those that it wants served.

    errors:  InvalidHandler  there are none, or another process could not find one of them
    """
    name = module.__name__
    named = {id(value) for value in vars(module).values()}
    handlers = [
        handler
        for handler in declared()
        if f"{handler.function.__module__}.".startswith(f"{name}.") or id(handler.function) in named
    ]
    if not handlers:
        raise InvalidHandler(
            f"app {shown(name)} has no handlers; decorate its functions with @shardclock.on_timer, or name the module"
            " that has them"
        )
    return {handler.target: _findable(handler) for handler in handlers}


def installed_apps() -> list[str]:
    """List the apps that installed packages name in their entry points of the group `shardclock.handlers`."""
    return sorted({entry_point.value for entry_point in entry_points(group=ENTRY_POINTS)})


def describe(handlers: Iterable[Handler]) -> list[dict[str, Any]]:
    """Write handlers as JSON values, for a process that doesn't import the app.

    units:   the policy's lengths of time are in seconds
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


def _imported(app: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except InvalidHandler:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise InvalidHandler(
                f"app {shown(app)} can't be imported: there is no module {shown(error.name)}; check its name, and that"
                " its folder is on the Python path"
            ) from None
        last_line = one_line(traceback.format_exception_only(error)[-1])
        raise InvalidHandler(
            f"app {shown(app)} can't be imported: {last_line}{_where(error)}; mend that first"
        ) from error


def _where(error: BaseException) -> str:
    """Say at which line of the user's own code an import failed, and not of a library that it calls."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        return f", in {one_line(error.filename)}:{error.lineno}"
    places = [(Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    places = [(file, line) for file, line in places if file.is_file() and not _is_below(file, IMPORTLIB, OURS)]
    own = [(file, line) for file, line in places if not _is_below(file, *LIBRARIES)] or places
    return f", in {one_line(str(own[-1][0]))}:{own[-1][1]}" if own else ""


def _is_below(file: Path, *folders: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in folders)


def _single(module: ModuleType, name: str) -> dict[str, Handler]:
    function = getattr(module, name, None)
    found = {handler.target: _findable(handler) for handler in declared() if handler.function is function}
    if function is not None and found:
        return found
    others = [handler.function.__name__ for handler in handlers_of(module).values()]
    listed = ", ".join(others[:LISTED_MAX]) + (", …" if len(others) > LISTED_MAX else "")
    what = "is not there" if function is None else "has no @shardclock.on_timer above it"
    raise InvalidHandler(f"handler {module.__name__}:{name} {what}; the handlers of {module.__name__} are {listed}")


def _findable(handler: Handler) -> Handler:
    function = handler.function
    if getattr(sys.modules.get(function.__module__), function.__name__, None) is function:
        return handler
    raise InvalidHandler(
        f"handler {handler.reference} of target {shown(handler.target)} is hidden: its module has something else of"
        " that name; make @on_timer the outermost decorator, and give each handler a name of its own"
    )
