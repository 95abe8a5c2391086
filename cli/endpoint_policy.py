"""The options of an endpoint's policy, and the policy that they describe."""

from typing import Annotated

import typer

from shardclock_server.cli.lengths import read_length
from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.webhooks.endpoint import TIMEOUT_S_MAX, TIMEOUT_S_MIN
from shardclock_server.webhooks.policy_defaults import RULES

RATE, CONCURRENCY, ATTEMPTS = RULES["rate_per_s"], RULES["concurrency"], RULES["max_attempts"]
DAY_S = 86_400
OF_POLICY = (
    "--concurrency", "--rate", "--timeout", "--max-attempts", "--expires-after", "--give-up-after", "--retry-min",
    "--retry-max",
)  # fmt: skip

Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency", min=1, max=CONCURRENCY.most, help="The limit of concurrent calls per worker. Default: 50."
    ),
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate", min=RATE.least, max=RATE.most, metavar="PER_SECOND", help="The limit of calls per second and worker."
    ),
]
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="The time limit of a call, 1s to 30s. Default: 15s.")
]
MaxAttempts = Annotated[
    int | None, typer.Option("--max-attempts", min=1, max=ATTEMPTS.most, help="The limit of attempts. Default: 20.")
]
ExpiresAfter = Annotated[
    str | None,
    typer.Option(
        "--expires-after",
        metavar="DURATION",
        help="The time after the due date within which the first attempt must start.",
    ),
]
GiveUpAfter = Annotated[
    str | None,
    typer.Option(
        "--give-up-after",
        metavar="DURATION",
        help="The time after the firing within which attempts may start. Default: 3d.",
    ),
]
RetryMin = Annotated[
    str | None,
    typer.Option(
        "--retry-min",
        metavar="DURATION",
        help="The backoff after the first failure, which is also the shortest backoff. Default: 5s.",
    ),
]
RetryMax = Annotated[
    str | None, typer.Option("--retry-max", metavar="DURATION", help="The longest pause. Default: 12h.")
]
NoRate = Annotated[bool, typer.Option("--no-rate", help="Remove the limit of calls per second.")]
NoExpiresAfter = Annotated[bool, typer.Option("--no-expires-after", help="Remove the limit of --expires-after.")]
NoGiveUpAfter = Annotated[bool, typer.Option("--no-give-up-after", help="Remove the limit of --give-up-after.")]


def numbers(concurrency: int | None, rate: float | None, max_attempts: int | None) -> dict[str, float | None]:
    """Return the numeric fields of the policy.

    errors:  Refusal  a number is out of range
    """
    if rate is not None and not RATE.least <= rate <= RATE.most:  # Typer's own check accepts nan.
        raise Refusal(f"--rate {rate:g} is refused: it must be a number from {RATE.least:g} to {RATE.most:,}")
    given = {"concurrency": concurrency, "rate_per_s": rate, "max_attempts": max_attempts}
    return {field: value for field, value in given.items() if value is not None}


def lengths(**given: str | None) -> dict[str, float | None]:
    """Return the fields of the policy that are lengths of time, in seconds.

    errors:  Refusal  a text is not a length of time, or is out of range
    """
    return {f"{name}_s": _length_s(name, text) for name, text in given.items() if text is not None}


def _length_s(name: str, text: str) -> float:
    option, rule = f"--{name.replace('_', '-')}", RULES[f"{name}_s"]
    least_s, most_s = (TIMEOUT_S_MIN, TIMEOUT_S_MAX) if name == "timeout" else (rule.least, rule.most)
    length_s = read_length(option, text).average().total_seconds()
    if not least_s <= length_s <= most_s:
        most = f"{most_s:g}s" if most_s < DAY_S else f"{most_s / DAY_S:g}d"
        raise Refusal(f"{option} {shortened(text)} is refused: it must be from {least_s:g}s to {most}")
    return length_s


def lifted(**limits: tuple[object, bool]) -> dict[str, float | None]:
    """Return the limits to remove. `limits` has pairs: the value of a limit, and the option that removes this limit.

    errors:  Refusal  a limit is both set and removed
    """
    for field, (given, is_lifted) in limits.items():
        if given is not None and is_lifted:
            option = field.removesuffix("_per_s").removesuffix("_s").replace("_", "-")
            raise Refusal(f"--{option} and --no-{option} exclude each other; remove one of the two")
    return {field: None for field, (_, is_lifted) in limits.items() if is_lifted}
