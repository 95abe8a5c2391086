"""Set the number of shards, workers or engines; for shards, alternatively set bounds for the forecast."""

from dataclasses import dataclass
from typing import NamedTuple

from shardclock_server.sql.cluster.holders import SHARD, list_holders
from shardclock_server.sql.cluster.leadership import ScalingPolicy, read_policy, set_policy
from shardclock_server.sql.cluster.leadership import scale as set_scale
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import SLOTS
from shardclock_server.timers.refusal import Refusal

TARGET_MAX = 1_000_000  # timers a second; no shard can fire more


class InvalidScale(Refusal):
    """A number of keepers, or a bound, is out of range."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The forecast's least and greatest number of shards, and the rate of one shard in timers per second.

    None leaves a value unchanged.
    """

    least: int | None = None
    most: int | None = None
    target_per_s: int | None = None

    @property
    def are_given(self) -> bool:
        """Return whether at least one of the bounds is given."""
        return (self.least, self.most, self.target_per_s) != (None, None, None)


class BoundNames(NamedTuple):
    """The names of the bounds in the caller's interface (options or fields), for refusals."""

    least: str
    most: str
    target_per_s: str


FIELDS = BoundNames("min", "max", "target_per_s")


@dataclass(frozen=True, slots=True)
class Scale:
    """The wanted number of a role's keepers, and the number of keepers that have slots now."""

    role: str
    policy: ScalingPolicy
    serving: int


async def read_scale(session: Session, role: str) -> Scale:
    """Read a role's wanted number of keepers, its policy, and the number of serving keepers.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    policy, holders = await read_policy(session, role), await list_holders(session, role)
    return Scale(role, policy, sum(holder.part is not None for holder in holders))


async def scale(session: Session, role: str, number: int) -> None:
    """Set a role's number of keepers and end its policy; the leading coordinator then starts or stops keepers.

    errors:  InvalidScale      the number is zero or less, or exceeds the number of slots
             StoreUnavailable  the outcome is unknown: call again
    """
    check_number(number, role)
    await set_scale(session, role, number)


async def let_forecast(session: Session, bounds: Bounds, called: BoundNames = FIELDS) -> None:
    """Let the forecast choose the number of shards between bounds; the first policy needs both bounds.

    errors:  InvalidScale      a bound is out of range, is missing, or contradicts the other bound
             StoreUnavailable  the outcome is unknown: call again
    """
    check_bounds(bounds, called)
    whole = _completed(bounds, await read_policy(session, SHARD), called)
    await set_policy(session, SHARD, wanted_min=whole.least, wanted_max=whole.most, target_per_s=whole.target_per_s)


def check_number(number: int, role: str, *, of: str = "") -> None:
    """Check a number of keepers.

    errors:  InvalidScale  the number is zero or less, or exceeds the number of slots
    """
    if not 1 <= number <= SLOTS:
        raise InvalidScale(f"{of}{number} {role}s are not possible: choose 1 to {SLOTS}")


def check_bounds(bounds: Bounds, called: BoundNames = FIELDS) -> None:
    """Check the range of each given bound.

    errors:  InvalidScale  a bound is out of range
    """
    for name, number in ((called.least, bounds.least), (called.most, bounds.most)):
        if number is not None:
            check_number(number, SHARD, of=f"{name} ")
    if bounds.target_per_s is not None and not 1 <= bounds.target_per_s <= TARGET_MAX:
        target = f"{called.target_per_s} {bounds.target_per_s}"
        raise InvalidScale(f"{target} is not possible: choose 1 to {TARGET_MAX} timers a second")


def _completed(bounds: Bounds, before: ScalingPolicy, called: BoundNames) -> Bounds:
    """Fill in the missing bounds from the present policy."""
    least = before.wanted_min if bounds.least is None else bounds.least
    most = before.wanted_max if bounds.most is None else bounds.most
    if least is None or most is None:
        if bounds.least is None and bounds.most is None:  # if only the target changes, both bounds may be missing
            return bounds
        raise InvalidScale(f"a policy needs both bounds: give {called.least} and {called.most}")
    if least > most:
        swap = f"swap {called.least} and {called.most}"
        raise InvalidScale(f"no number of shards is at least {least} and at most {most}; {swap}")
    return Bounds(least, most, bounds.target_per_s)
