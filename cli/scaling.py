"""The commands about load: scale and forecast."""

import asyncio
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from cli.options import WAIT_S_MAX
from cli.output import DONE, NOT_DONE, Json, out, print_json, print_table, tell
from cli.session import with_session
from service.words import counted
from sql.cluster.holders import list_holders
from sql.cluster.leadership import Policy, read_policy, set_policy
from sql.cluster.leadership import scale as set_scale
from sql.metrics.forecast import Forecast, read_forecast
from sql.session import Session
from timers.model import SLOTS
from timers.refusal import InvalidTimer

POLL_S = 0.1
TARGET_MAX = 1_000_000  # timers a second: far more than a shard can fire
BAR_WIDTH = 40


def scale(
    shards: Annotated[
        int | None, typer.Argument(help="How many shards are wanted, 1 to 840; ends a policy.", show_default=False)
    ] = None,
    least: Annotated[int | None, typer.Option("--min", help="The forecast may ask for no fewer.")] = None,
    most: Annotated[int | None, typer.Option("--max", help="The forecast may ask for no more.")] = None,
    target: Annotated[
        int | None, typer.Option("--target", metavar="PER_SECOND", help="Timers a second that one shard shall fire.")
    ] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, max=WAIT_S_MAX, help="Wait until they serve.")
    ] = 0.0,
    as_json: Json = False,
) -> int:
    """Show or set how many shards the cluster runs: a number, or bounds between which it follows the forecast."""
    is_policy = (least, most, target) != (None, None, None)
    if shards is not None and is_policy:
        raise InvalidTimer("give either a number of shards, or --min, --max and --target for a policy; not both")
    for option, number in (("", shards), ("--min ", least), ("--max ", most)):
        if number is not None and not 1 <= number <= SLOTS:
            raise InvalidTimer(f"{option}{number} shards are not possible: choose 1 to {SLOTS}")
    if target is not None and not 1 <= target <= TARGET_MAX:
        raise InvalidTimer(f"--target {target} is not possible: choose 1 to {TARGET_MAX} timers a second")

    async def do(session: Session) -> int:
        before = await read_policy(session)
        if shards is not None:
            await set_scale(session, shards)
        elif is_policy:
            await set_policy(session, **_policy(before, least, most, target))
        after, serving = await _served(session, wait_s)
        _show(before, after, serving, as_json=as_json)
        return DONE if serving == after.shards_wanted or not wait_s else NOT_DONE

    return with_session(do)


def forecast(as_json: Json = False) -> int:
    """Show the timers that fall due in each of the next 15 minutes, against what the living shards can fire."""

    async def do(session: Session) -> int:
        coming, policy = await read_forecast(session), await read_policy(session)
        if as_json:
            print_json(
                {
                    "timers_per_minute": coming.minutes,
                    "peak_per_s": coming.peak_per_s,
                    "estimated": coming.estimated,
                    "capacity_per_s": policy.capacity_per_s,
                    **asdict(policy),
                }
            )
        else:
            _draw(coming, policy)
        return DONE

    return with_session(do)


def _policy(before: Policy, least: int | None, most: int | None, target: int | None) -> dict[str, int | None]:
    """Complete the given options from the policy before; a first policy needs both bounds."""
    shards_min = before.shards_min if least is None else least
    shards_max = before.shards_max if most is None else most
    if shards_min is None or shards_max is None:
        if least is None and most is None:  # only --target is given, which needs no policy
            return {"shards_min": None, "shards_max": None, "target_per_s": target}
        raise InvalidTimer("a policy needs both bounds: give --min and --max")
    if shards_min > shards_max:
        raise InvalidTimer(
            f"no number of shards is at least {shards_min} and at most {shards_max}; swap --min and --max"
        )
    return {"shards_min": shards_min, "shards_max": shards_max, "target_per_s": target}


async def _served(session: Session, wait_s: float) -> tuple[Policy, int]:
    deadline = time.monotonic() + wait_s
    while True:
        policy, holders = await read_policy(session), await list_holders(session)
        serving = sum(holder.shard is not None for holder in holders)
        if serving == policy.shards_wanted or time.monotonic() >= deadline:
            return policy, serving
        await asyncio.sleep(POLL_S)


def _show(before: Policy, after: Policy, serving: int, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "before": before.shards_wanted,
                "wanted": after.shards_wanted,
                "serving": serving,
                "min": after.shards_min,
                "max": after.shards_max,
                "target_per_s": after.target_per_s,
            }
        )
        return
    follows = "an operator" if after.shards_min is None else f"the forecast, {after.shards_min} to {after.shards_max}"
    print_table(
        "",
        ["before", "wanted", "serving", "set by", "a shard fires"],
        [(before.shards_wanted, after.shards_wanted, serving, follows, f"{after.target_per_s:,} a second")],
    )


def _draw(coming: Forecast, policy: Policy) -> None:
    """Draw a bar for each minute, with a mark at the capacity."""
    capacity = policy.capacity_per_s * 60
    full = max(*coming.minutes, capacity, 1)
    mark = round(capacity / full * BAR_WIDTH)
    about = "about " if coming.estimated else ""
    for minute, timers in enumerate(coming.minutes, start=1):
        length = -(-timers * BAR_WIDTH // full)
        bar = "█" * length + " " * (BAR_WIDTH + 1 - length)
        bar = bar[:mark] + ("│" if length <= mark else "┃") + bar[mark + 1 :]
        line = Text(f"{f'+{minute} min':>7} {bar} {about}{timers:,}")
        out.print(line, style="red" if timers > capacity else None, soft_wrap=True)
    bounds = (
        "" if policy.shards_min is None else f", the forecast may ask for {policy.shards_min} to {policy.shards_max}"
    )
    tell(
        f"capacity │ {capacity:,} a minute: {counted(policy.shards_alive, 'shard')} x {policy.target_per_s:,} a second"
        f"{bounds}; the busiest ten seconds: {coming.peak_per_s:,.0f} a second"
    )
