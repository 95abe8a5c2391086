"""The commands by name.

A command's module is imported on demand, because an import of all modules would take a third of a command's run time.

Typer contains a copy of click. The classes here extend the classes of Typer's copy, because Typer works only with its
own copy.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pkgutil import resolve_name
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup


class CommandLocation(NamedTuple):
    """The location of a command: a module of `cli`, and the name of a function or of a command group."""

    name: str
    summary: str  # The first sentence of the command's help, so that `--help` works without an import of the command.


# The commands, in the order of `shardclock --help`.
COMMANDS: Mapping[str, CommandLocation] = {
    "up": CommandLocation(
        "run:up", "Run the cluster until Ctrl-C or SIGTERM; at its end, the cluster releases all claims."
    ),
    "gateway": CommandLocation(
        "run:gateway",
        "Serve the HTTP API until Ctrl-C or SIGTERM; a gateway needs only Postgres, and several gateways may run.",
    ),
    "demo": CommandLocation(
        "run:demo",
        "Fire 5,000 timers, or the timers of a file, on a temporary cluster with injected faults; check every record.",
    ),
    "migrate": CommandLocation("run:migrate", "Bring the database's schema up to date."),
    "exporter": CommandLocation(
        "run:exporter",
        "Serve this node's metrics until Ctrl-C or SIGTERM: the reports of its shards, and measurements of the tables.",
    ),
    "dsn": CommandLocation(
        "database:dsn", "Print the DSN, including the password, of the configured database or the embedded Postgres."
    ),
    "psql": CommandLocation("database:psql", "Open psql on the database; an embedded Postgres is started first."),
    "dump": CommandLocation(
        "backup:dump", "Write a consistent copy of the schema into a new file; the cluster may run during the dump."
    ),
    "restore": CommandLocation(
        "backup:restore",
        "Restore a dump file into a database without the schema; no timer fires until `shardclock release`.",
    ),
    "scale": CommandLocation(
        "scaling:scale",
        "Show or set the number of shards, workers or engines, or the bounds of the forecast for shards.",
    ),
    "forecast": CommandLocation(
        "scaling:forecast",
        "Show the timers that become due in each of the next 15 minutes, and the capacity of the live shards.",
    ),
    "ramp": CommandLocation("ramp:ramp", "Show or set the firing rate of timers that an outage left overdue."),
    "switch": CommandLocation(
        "handover:switch", "Give the lead to another cluster on this database, once that cluster's keepers are ready."
    ),
    "leave": CommandLocation(
        "handover:leave",
        "Move this host's shards to other nodes before the host leaves; a Kubernetes preStop hook runs this command.",
    ),
    "hold": CommandLocation(
        "hold:hold", "Stop all firing, deliveries and processes until `release`; new timers are accepted and stored."
    ),
    "release": CommandLocation(
        "hold:release",
        "Release a database on hold; this installation becomes the owner of a copy or of a foreign database.",
    ),
    "schedule": CommandLocation("schedule:schedule", "Schedule one timer, or a file of timers."),
    "preview": CommandLocation(
        "inspect:preview",
        "Show the next dates of a schedule, with a note if a clock change moves a date; needs no database.",
    ),
    "list": CommandLocation(
        "inspect:list_",
        "List timers: pending timers soonest first, paused timers by key, or ended timers newest first.",
    ),
    "show": CommandLocation("inspect:show", "Show one timer and its last records."),
    "explain": CommandLocation(
        "explain:explain", "Explain from stored records why a timer or schedule fired or did not fire."
    ),
    "cancel": CommandLocation("verbs:cancel", "Cancel a pending timer, or many; fail if a timer has fired already."),
    "reschedule": CommandLocation(
        "reschedule:reschedule", "Move a pending timer, or many with --shift; fail if a timer has fired already."
    ),
    "pause": CommandLocation("verbs:pause", "Pause a timer, or many timers, until a resume or until a moment."),
    "resume": CommandLocation(
        "verbs:resume", "Resume a paused timer, or many; a timer with a due date during the pause is due immediately."
    ),
    "run-now": CommandLocation(
        "verbs:run_now", "Make a pending timer due now; a schedule fires one extra time, and keeps its dates."
    ),
    "operate": CommandLocation(
        "operate:operate",
        "Pause, resume or reschedule a timer of a job or a process; the other commands refuse these timers.",
    ),
    "deploy": CommandLocation(
        "processes:deploy",
        "Deploy the processes of a BPMN model. Each process gets a new version, unless the file is unchanged.",
    ),
    "tail": CommandLocation("status:tail", "Follow the command log, and print each record once."),
    "status": CommandLocation(
        "status:status",
        "Show shards, holders and nodes, pending, paused and overdue timers, lag, and timers that an outage delays.",
    ),
    "doctor": CommandLocation(
        "doctor:doctor",
        "Check the installation: Postgres, schema, rights, clock, disk, Ray, quotas and certificates.",
    ),
    "targets": CommandLocation(
        "targets:targets",
        "List the targets of timers: the log, handlers, jobs and endpoints, with their deliveries and dead letters.",
    ),
    "audit": CommandLocation("audit:audit", "List the audit records of operators' changes, newest first."),
    "consumers": CommandLocation(
        "consumers:consumers",
        "List the groups that read the log, with the lag of each; the subcommands change one group.",
    ),
    "dead-letters": CommandLocation(
        "dead_letters:dead_letters",
        "List the deliveries that were given up; the subcommands redrive or discard dead letters.",
    ),
    "deliveries": CommandLocation(
        "deliveries:deliveries", "List the pending deliveries; the subcommands show, retry and cancel one delivery."
    ),
    "endpoints": CommandLocation(
        "endpoints:endpoints",
        "List the endpoints, the receivers of webhooks; the subcommands add, test and change endpoints.",
    ),
    "jobs": CommandLocation(
        "jobs:jobs", "List the jobs of the app; the subcommands show, run, cancel, disable and configure one job."
    ),
    "keys": CommandLocation(
        "keys:keys", "List the keys of the HTTP API; the subcommands add, rotate and revoke one key."
    ),
    "notify": CommandLocation(
        "notify:notify",
        "List the endpoints that get events for operators; the subcommands add, remove and test them.",
    ),
    "operations": CommandLocation(
        "operations:operations",
        "List the bulk operations with their progress; the subcommands show or cancel one operation.",
    ),
    "processes": CommandLocation(
        "processes:processes", "List deployed processes; the subcommands start, show, signal and cancel instances."
    ),
    "schedules": CommandLocation(
        "schedules:schedules", "List schedules with their last firings, or show one schedule."
    ),
    "tasks": CommandLocation(
        "tasks:tasks", "List the open user tasks; the subcommands show, claim and complete one task."
    ),
    "tenants": CommandLocation(
        "tenants:tenants",
        "List the tenants with their own limits; the subcommands show, set and remove the limits of one tenant.",
    ),
}
# These commands also get unknown options: `ramp` and `scale` refuse -1 with their own message, and `psql` checks its
# own options.
PRINTING = frozenset(
    {"list", "show", "explain", "preview", "tail", "status", "doctor", "targets", "audit", "forecast", "psql"}
)
GROUPS = frozenset(
    {
        "consumers",
        "dead-letters",
        "deliveries",
        "endpoints",
        "jobs",
        "keys",
        "notify",
        "operations",
        "processes",
        "schedules",
        "tasks",
        "tenants",
    }
)
# The commands to suggest for a word that is not a command, but that a user may type.
MEANT: Mapping[str, tuple[str, ...]] = {
    "timers": ("list",),
    "timer": ("show",),
    "when": ("show", "explain"),
    "why": ("explain",),
    "log": ("tail",),
    "instances": ("processes instances",),
    "instance": ("processes show",),
    "incidents": ("processes incidents",),
    "messages": ("processes message",),
    "signals": ("processes signal",),
    "webhooks": ("endpoints",),
}
LIKENESS = 0.8  # a word gets a suggestion only if it is at least this similar to a key of MEANT
TAKE_ANY_OPTION = frozenset({"ramp", "scale", "psql"})


def only_prints(words: list[str]) -> bool:
    """Return whether the arguments name a command that only reads."""
    return words[0] in PRINTING or (words[0] in GROUPS and words[1:2] in (["list"], ["show"]))


class Commands(TyperGroup):
    """The group of all commands; `--help` works without an import of the commands' modules."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _Loaded()

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Refuse a word that is no command; the message suggests commands."""
        if args[0] not in COMMANDS and (meant := _meant_by(args[0])):
            suggested = ", ".join(repr(command) for command in meant)
            ctx.fail(f"No such command {args[0]!r}. Did you mean {suggested}?")
        return super().resolve_command(ctx, args)

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names of the commands, without an import of their modules."""
        return list(self.commands)

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write the name and the summary of each command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.summary) for name, place in COMMANDS.items()])


def _meant_by(word: str) -> list[str]:
    near = [word] if word in MEANT else get_close_matches(word, MEANT, cutoff=LIKENESS)
    return [command for key in near for command in MEANT[key]]


class _Loaded(Mapping[str, Any]):
    """A mapping of names to commands; the first access to a command imports its module."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, COMMANDS[name].name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _load(name: str, place: str) -> Any:
    """Build one command, or one group of commands, in a new Typer program."""
    from shardclock_server.cli.recording import record_verbs  # imports the session

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
    """Turn a program with a single command into a group; otherwise Typer would drop the command's name."""
