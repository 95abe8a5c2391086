"""The commands by name. A command is imported on demand: importing all of them took a third of a command's time."""

from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import Any

import typer
from typer.core import TyperGroup

from shardclock_server.cli.recording import record_verbs

# In the order of `shardclock --help`. Each value names a module of `cli`, and in it a function or a group of commands.
COMMANDS: Mapping[str, str] = {
    "up": "run:up",
    "gateway": "run:gateway",
    "demo": "run:demo",
    "migrate": "run:migrate",
    "exporter": "run:exporter",
    "dsn": "database:dsn",
    "psql": "database:psql",
    "scale": "scaling:scale",
    "forecast": "scaling:forecast",
    "ramp": "ramp:ramp",
    "switch": "handover:switch",
    "leave": "handover:leave",
    "hold": "hold:hold",
    "release": "hold:release",
    "schedule": "schedule:schedule",
    "preview": "inspect:preview",
    "list": "inspect:list_",
    "show": "inspect:show",
    "explain": "explain:explain",
    "cancel": "verbs:cancel",
    "reschedule": "reschedule:reschedule",
    "pause": "verbs:pause",
    "resume": "verbs:resume",
    "run-now": "verbs:run_now",
    "operate": "operate:operate",
    "deploy": "processes:deploy",
    "tail": "status:tail",
    "status": "status:status",
    "targets": "targets:targets",
    "audit": "audit:audit",
    "consumers": "consumers:consumers",
    "dead-letters": "dead_letters:dead_letters",
    "deliveries": "deliveries:deliveries",
    "endpoints": "endpoints:endpoints",
    "jobs": "jobs:jobs",
    "keys": "keys:keys",
    "processes": "processes:processes",
    "schedules": "schedules:schedules",
    "tasks": "tasks:tasks",
    "tenants": "tenants:tenants",
}
# The argument `-1` of `ramp` or `scale` is a wrong number, not an unknown option. psql checks its options itself.
PRINTING = frozenset({"list", "show", "explain", "preview", "tail", "status", "targets", "audit", "forecast", "psql"})
GROUPS = frozenset(
    {
        "consumers",
        "dead-letters",
        "deliveries",
        "endpoints",
        "jobs",
        "keys",
        "processes",
        "schedules",
        "tasks",
        "tenants",
    }
)
TAKE_ANY_OPTION = frozenset({"ramp", "scale", "psql"})


def only_prints(words: list[str]) -> bool:
    """Return whether the words name a command that changes nothing."""
    return words[0] in PRINTING or (words[0] in GROUPS and words[1:2] in (["list"], ["show"]))


class Commands(TyperGroup):
    """The group of all commands; only its help imports all of them, to print their summaries."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _Loaded()

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names of the commands, without importing any."""
        return list(self.commands)


class _Loaded(Mapping[str, Any]):
    """A mapping that imports a command at its first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, COMMANDS[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _load(name: str, place: str) -> Any:
    """Build one command, or one group of commands, inside an otherwise empty program, as Typer requires."""
    part = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    part.callback()(_is_group)
    found = resolve_name(f"shardclock_server.cli.{place}")
    if isinstance(found, typer.Typer):
        part.add_typer(found, name=name)
    else:
        part.command(name, context_settings={"ignore_unknown_options": name in TAKE_ANY_OPTION})(found)
    record_verbs(part)
    group: Any = typer.main.get_command(part)
    return group.commands[name]


def _is_group() -> None:
    """Make a program with a single command a group: otherwise Typer would drop the command's name."""
