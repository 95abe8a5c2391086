"""How many shards, workers or engines there are to be: as an operator says, or as the forecast does, between bounds."""

from dataclasses import dataclass
from typing import NamedTuple

from shardclock_server.sql.cluster.holders import SHARD, list_holders
from shardclock_server.sql.cluster.leadership import Policy, read_policy, set_policy
from shardclock_server.sql.cluster.leadership import scale as set_scale
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import SLOTS
from shardclock_server.timers.refusal import Refusal

TARGET_MAX = 1_000_000  # timers a second: far more than a shard can fire


class InvalidScale(Refusal):
    """Refuse a number of keepers, or bounds, that can't be."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most shards that the forecast may choose, and how many timers a second one is to fire.

    What is None stays as it was.
    """

    least: int | None = None
    most: int | None = None
    target_per_s: int | None = None

    @property
    def are_given(self) -> bool:
        """Say whether anything is to change."""
        return (self.least, self.most, self.target_per_s) != (None, None, None)


class Words(NamedTuple):
    """What the caller's users call the bounds."""

    least: str
    most: str
    target_per_s: str


FIELDS = Words("min", "max", "target_per_s")


@dataclass(frozen=True, slots=True)
class Scale:
    """How many keepers of a role are wanted, and how many of them keep slots now."""

    role: str
    policy: Policy
    serving: int


async def read_scale(session: Session, role: str) -> Scale:
    """Read how many keepers of a role are wanted, by whom, and how many serve.

    errors:  StoreUnavailable  no answer in time
    """
    policy, holders = await read_policy(session, role), await list_holders(session, role)
    return Scale(role, policy, sum(holder.part is not None for holder in holders))


async def scale(session: Session, role: str, number: int) -> None:
    """Say how many keepers of a role there are to be, which ends a policy; the leading coordinator acts on it.

    errors:  InvalidScale      more than there are slots, or none
             StoreUnavailable  the outcome is unknown: call again
    """
    check_number(number, role)
    await set_scale(session, role, number)


async def let_forecast(session: Session, bounds: Bounds, called: Words = FIELDS) -> None:
    """Let the forecast say how many shards there are to be, between bounds; a first policy needs both.

    errors:  InvalidScale      they can't be
             StoreUnavailable  the outcome is unknown: call again
    """
    check_bounds(bounds, called)
    whole = _completed(bounds, await read_policy(session, SHARD), called)
    await set_policy(session, SHARD, wanted_min=whole.least, wanted_max=whole.most, target_per_s=whole.target_per_s)


def check_number(number: int, role: str, *, of: str = "") -> None:
    """Make sure that there can be so many keepers of a role.

    errors:  InvalidScale  more than there are slots, or none
    """
    if not 1 <= number <= SLOTS:
        raise InvalidScale(f"{of}{number} {role}s are not possible: choose 1 to {SLOTS}")


def check_bounds(bounds: Bounds, called: Words = FIELDS) -> None:
    """Make sure that each of these bounds can be, whatever the others are.

    errors:  InvalidScale  it can't
    """
    for name, number in ((called.least, bounds.least), (called.most, bounds.most)):
        if number is not None:
            check_number(number, SHARD, of=f"{name} ")
    if bounds.target_per_s is not None and not 1 <= bounds.target_per_s <= TARGET_MAX:
        target = f"{called.target_per_s} {bounds.target_per_s}"
        raise InvalidScale(f"{target} is not possible: choose 1 to {TARGET_MAX} timers a second")


def _completed(bounds: Bounds, before: Policy, called: Words) -> Bounds:
    """Complete given bounds from the policy before."""
    least = before.wanted_min if bounds.least is None else bounds.least
    most = before.wanted_max if bounds.most is None else bounds.most
    if least is None or most is None:
        if bounds.least is None and bounds.most is None:  # only the target is given, which needs no policy
            return bounds
        raise InvalidScale(f"a policy needs both bounds: give {called.least} and {called.most}")
    if least > most:
        swap = f"swap {called.least} and {called.most}"
        raise InvalidScale(f"no number of shards is at least {least} and at most {most}; {swap}")
    return Bounds(least, most, bounds.target_per_s)
