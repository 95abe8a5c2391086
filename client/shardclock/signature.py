"""Read the signature of a handler, or of a job's function."""

import inspect
import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardclock.refusal import InvalidHandler, shown
from shardclock.run import Run
from shardclock.timer import Timer

FunctionOfTimer = Callable[[Any], Any]
ONE_OF = "annotate it as shardclock.Timer, shardclock.Timer[Order] or, with batch=, list[shardclock.Timer]"


@dataclass(frozen=True, slots=True)
class Signature:
    """How to call a function; `takes_batch` is None if the annotation allows both a timer and a batch."""

    is_async: bool
    takes_batch: bool | None
    payload: Any


def read_signature(function: FunctionOfTimer, *, called: str) -> Signature:
    """Find out how to call a handler: async or plain, with a timer or a list, and with which type of payload.

    errors:  InvalidHandler  the function is a generator, can't be called with one argument, or is annotated with
                             another type
    """
    parameter = _parameter(function, called)
    annotation = _annotation(function, parameter, called)
    takes_batch, payload = _taken(annotation, parameter, called)
    return Signature(inspect.iscoroutinefunction(function), takes_batch, payload)


def read_job_signature(function: FunctionOfTimer, *, called: str) -> Signature:
    """Read from a job function's signature how to call the function; `payload` is the type of the job's configuration.

    errors:  InvalidHandler  as in `read_signature`
    """
    parameter = _parameter(function, called)
    annotation = _annotation(function, parameter, called)
    if annotation is Any or annotation is Run:
        config = Any
    elif typing.get_origin(annotation) is Run:
        config = typing.get_args(annotation)[0]
    else:
        raise InvalidHandler(
            f"job {called} takes {parameter.name} as {shown(annotation)}, and it is called with a run;"
            " annotate it as shardclock.Run, or shardclock.Run[Settings]"
        )
    return Signature(inspect.iscoroutinefunction(function), takes_batch=False, payload=config)


def _parameter(function: FunctionOfTimer, called: str) -> inspect.Parameter:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidHandler(f"handler {called} is a generator, which would never run; take out its yield")
    signature = _signature(function)
    try:
        bound = signature.bind(None)
    except TypeError:
        raise InvalidHandler(
            f"handler {called} has the parameters {shown(signature)[11:-1]}, and it is called with one positional"
            " argument; take one, and give others a default"
        ) from None
    return signature.parameters[next(iter(bound.arguments))]


def _signature(function: FunctionOfTimer) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        # Other annotations are ignored, because their names may be imported only for type checkers.
        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _annotation(function: FunctionOfTimer, parameter: inspect.Parameter, called: str) -> Any:
    """Evaluate the annotation of the single parameter; other annotations may stay unreadable."""
    if parameter.annotation is parameter.empty:
        return Any

    def alone(_: object) -> None: ...

    alone.__annotations__ = {"_": parameter.annotation}
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(alone, globalns=names, include_extras=True)["_"]
    except Exception as error:  # noqa: BLE001 - an annotation is the user's code
        raise InvalidHandler(
            f"handler {called} has the annotation {shown(parameter.annotation)}, which can't be read"
            f" ({shown(str(error))}); import or define its names above the handler, not under TYPE_CHECKING"
        ) from None


def _taken(annotation: Any, parameter: inspect.Parameter, called: str) -> tuple[bool | None, Any]:
    """Return whether the function takes a batch, and the type of a payload."""
    if annotation is Any:
        return None, Any
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    takes_batch = origin in {list, Sequence} or annotation in {list, Sequence}
    one = (arguments[0] if arguments else Any) if takes_batch else annotation
    if one is Timer or (takes_batch and one is Any):
        return takes_batch, Any
    if typing.get_origin(one) is Timer:
        return takes_batch, typing.get_args(one)[0]
    raise InvalidHandler(
        f"handler {called} takes {parameter.name} as {shown(annotation)}, and it is called with a timer; {ONE_OF}"
    )


def is_second_import(known: Callable[[Any], Any], function: Callable[[Any], Any]) -> bool:
    """Return whether `function` is a second import of `known`: by a reload, or of `__main__` by its module's name."""
    modules = {known.__module__, function.__module__}
    return known.__qualname__ == function.__qualname__ and (len(modules) == 1 or "__main__" in modules)
