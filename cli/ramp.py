"""The command that shows and sets the ramp, which is the rate at which overdue timers fire after an outage."""

from functools import partial
from typing import Annotated

import typer

from shardclock_server.cli.output import DONE, Json, print_json, print_table
from shardclock_server.cli.session import with_session
from shardclock_server.cluster.settings import load_settings
from shardclock_server.service.hold import living_of
from shardclock_server.service.wording import counted, until_of
from shardclock_server.sql.cluster.holders import SHARD, list_holders
from shardclock_server.sql.cluster.leadership import RAMP_PER_S, set_ramp
from shardclock_server.sql.metrics.status import Status, read_status
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

PER_S_MAX = 2_147_483_647
OFF = "off"
DEFAULT = "default"


def ramp(
    per_second: Annotated[
        str | None,
        typer.Argument(
            metavar=f"[PER_SECOND|{OFF}|{DEFAULT}]",
            help=f"Timers a second; 0 stops overdue timers, {OFF} is no limit, {DEFAULT} is {RAMP_PER_S:,}.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Show or set the firing rate of timers that an outage left overdue."""
    if per_second is None:
        return with_session(partial(_show, as_json=as_json))
    return with_session(partial(_set, per_s=_rate(per_second), as_json=as_json))


def overdue_of(state: Status) -> str:
    """Format the number of overdue timers, with "about" before an estimate."""
    return f"{_prefix(state)}{state.overdue:,}"


def outage_of(state: Status, *, is_served: bool) -> str:
    """Describe the timers that an outage left overdue: their number, the firing rate, and the remaining time."""
    left = f"{_prefix(state)}{counted(state.left_by_outage, 'timer')}"
    if not state.left_by_outage:
        return "nothing"
    if not is_served:
        return f"{left}, waiting for a running shard"
    if state.ramp_per_s == 0:
        return f"{left}, waiting because the ramp is 0; `shardclock ramp 1000` fires 1,000 a second"
    if state.caught_up_in_s is None:
        return f"{left}, firing without a limit"
    return f"{left}, firing at {state.ramp_per_s:,} a second {until_of(state.caught_up_in_s, state.server_time)}"


async def _show(session: Session, *, as_json: bool) -> int:
    state = await read_status(session)
    if as_json:
        shown = ("ramp_per_s", "left_by_outage", "overdue_estimated", "caught_up_in_s")
        print_json({name: getattr(state, name) for name in shown})
        return DONE
    living = living_of(await list_holders(session, SHARD), load_settings().coordinator.silent_s)
    is_served = any(holder.part is not None for holder in living)
    rows = [("ramp", _rate_text(state.ramp_per_s)), ("left by an outage", outage_of(state, is_served=is_served))]
    print_table("", ["cluster", ""], rows)
    return DONE


async def _set(session: Session, *, per_s: int | None, as_json: bool) -> int:
    before, now = await set_ramp(session, per_s)
    if as_json:
        print_json({"before": before, "ramp_per_s": now})
    else:
        print_table("", ["before", "now"], [(_rate_text(before), _rate_text(now))])
    return DONE


def _rate(text: str) -> int | None:
    if text in (OFF, DEFAULT):
        return None if text == OFF else RAMP_PER_S
    if text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= PER_S_MAX:
        return int(text)
    raise Refusal(f"ramp {shortened(text)} is not a rate: use 0 to {PER_S_MAX} timers a second, {OFF}, or {DEFAULT}")


def _prefix(state: Status) -> str:
    return "about " if state.overdue_estimated else ""


def _rate_text(per_s: int | None) -> str:
    if per_s is None:
        return f"{OFF}: no limit"
    return f"{per_s:,} a second" if per_s else "0: held back"
