"""The commands about load: scale and forecast."""

import asyncio
import time
from typing import Annotated, NamedTuple

import typer

from shardclock.api.codes import NOT_DONE
from shardclock_server.cli.options import WAIT_S_MAX
from shardclock_server.cli.output import DONE, Json, print_json, print_line, print_note, print_table
from shardclock_server.cli.recording import record_done
from shardclock_server.cli.session import with_session
from shardclock_server.service.scaling import (
    BoundNames,
    Bounds,
    Scale,
    check_bounds,
    check_number,
    let_forecast,
    read_scale,
)
from shardclock_server.service.scaling import scale as set_scale
from shardclock_server.service.wording import counted
from shardclock_server.sql.cluster.holders import ROLES, SHARD
from shardclock_server.sql.cluster.leadership import ScalingPolicy, read_policy
from shardclock_server.sql.metrics.forecast import Forecast, read_forecast
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import SLOTS
from shardclock_server.timers.refusal import Refusal

POLL_S = 0.1
BAR_WIDTH = 40
OPTIONS = BoundNames("--min", "--max", "--target")


class ScaleArguments(NamedTuple):
    """A wanted number of keepers, with their role."""

    role: str
    number: int


class _RefusedArgument(typer.BadParameter):
    """The refusal of an argument; the message names the value and the rule, but not the argument's pattern."""

    def format_message(self) -> str:
        return self.message


def _read_arguments(wanted: str) -> ScaleArguments:
    """Read `4`, `shards=4` or `workers=4`."""
    role, _, number = wanted.rpartition("=")
    if role not in ("", *(f"{known}s" for known in ROLES)):
        raise _RefusedArgument(
            f"{wanted!r} has the role {role!r}, which does not exist; write shards=4, workers=4 or engines=2"
        )
    try:
        return ScaleArguments(role.removesuffix("s") or SHARD, int(number))
    except ValueError:
        raise _RefusedArgument(f"{wanted!r} is not a number of {role or 'shards'}: choose 1 to {SLOTS}") from None


def scale(
    asked: Annotated[
        ScaleArguments | None,
        typer.Argument(
            parser=_read_arguments,
            metavar="[[shards=|workers=|engines=]NUMBER]",
            help="The wanted number of shards, workers or engines, 1 to 840; for shards, this ends a policy.",
            show_default=False,
        ),
    ] = None,
    least: Annotated[int | None, typer.Option("--min", help="The smallest number that the forecast may set.")] = None,
    most: Annotated[int | None, typer.Option("--max", help="The largest number that the forecast may set.")] = None,
    target: Annotated[
        int | None,
        typer.Option("--target", metavar="PER_SECOND", help="The number of timers that a shard should fire a second."),
    ] = None,
    wait_s: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, max=WAIT_S_MAX, help="The longest wait until the keepers have slots."
        ),
    ] = 0.0,
    as_json: Json = False,
) -> int:
    """Show or set the number of shards, workers or engines, or the bounds of the forecast for shards."""
    role, number = asked or (SHARD, None)
    bounds = Bounds(least, most, target)
    if asked is not None and bounds.are_given:
        raise Refusal("give either a number of shards, or --min, --max and --target for a policy")
    if number is not None:
        check_number(number, role)
    check_bounds(bounds, OPTIONS)

    async def do(session: Session) -> int:
        before = await read_scale(session, role)
        if number is not None:
            await set_scale(session, role, number)
        elif bounds.are_given:
            await let_forecast(session, bounds, OPTIONS)
        await record_done(session)
        after = await _served(session, role, wait_s)
        _show(before.policy, after, as_json=as_json)
        return DONE if after.serving == after.policy.wanted or not wait_s else NOT_DONE

    return with_session(do)


def forecast(as_json: Json = False) -> int:
    """Show the timers that become due in each of the next 15 minutes, and the capacity of the live shards."""

    async def do(session: Session) -> int:
        coming, policy = await read_forecast(session), await read_policy(session, SHARD)
        if as_json:
            print_json(
                {
                    "timers_per_minute": coming.minutes,
                    "peak_per_s": coming.peak_per_s,
                    "estimated": coming.estimated,
                    "capacity_per_s": policy.capacity_per_s,
                    "shards_wanted": policy.wanted,
                    "shards_min": policy.wanted_min,
                    "shards_max": policy.wanted_max,
                    "target_per_s": policy.target_per_s,
                    "shards_alive": policy.alive,
                    "log_records": policy.log_records,
                }
            )
        else:
            _draw(coming, policy)
        return DONE

    return with_session(do)


async def _served(session: Session, role: str, wait_s: float) -> Scale:
    """Wait at most `wait_s` until the wanted number of keepers have slots."""
    deadline = time.monotonic() + wait_s
    while True:
        found = await read_scale(session, role)
        if found.serving == found.policy.wanted or time.monotonic() >= deadline:
            return found
        await asyncio.sleep(POLL_S)


def _show(before: ScalingPolicy, after: Scale, *, as_json: bool) -> None:
    now = after.policy
    if as_json:
        print_json(
            {
                "before": before.wanted,
                "wanted": now.wanted,
                "serving": after.serving,
                "min": now.wanted_min,
                "max": now.wanted_max,
                "target_per_s": now.target_per_s,
            }
        )
        return
    chosen_by = "an operator" if now.is_set else "the default"
    follows = chosen_by if now.wanted_min is None else f"the forecast, {now.wanted_min} to {now.wanted_max}"
    columns, row = ["before", "wanted", "serving", "set by"], [before.wanted, now.wanted, after.serving, follows]
    if after.role == SHARD:
        columns, row = [*columns, "a shard fires"], [*row, f"{now.target_per_s:,} a second"]
    print_table("", columns, [row])


def _draw(coming: Forecast, policy: ScalingPolicy) -> None:
    """Draw a bar for each minute, with a mark at the capacity of the shards."""
    capacity = policy.capacity_per_s * 60
    full = max(*coming.minutes, capacity, 1)
    mark = round(capacity / full * BAR_WIDTH)
    about = "about " if coming.estimated else ""
    for minute, timers in enumerate(coming.minutes, start=1):
        length = -(-timers * BAR_WIDTH // full)
        bar = "█" * length + " " * (BAR_WIDTH + 1 - length)
        bar = bar[:mark] + ("│" if length <= mark else "┃") + bar[mark + 1 :]
        line = f"{f'+{minute} min':>7} {bar} {about}{timers:,}"
        print_line(line, style="red" if timers > capacity else None)
    bounds = (
        "" if policy.wanted_min is None else f", the forecast may ask for {policy.wanted_min} to {policy.wanted_max}"
    )
    print_note(
        f"capacity │ {capacity:,} a minute: {counted(policy.alive, 'shard')} x {policy.target_per_s:,} a second"
        f"{bounds}; the busiest ten seconds: {coming.peak_per_s:,.0f} a second"
    )
