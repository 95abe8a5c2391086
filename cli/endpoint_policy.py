"""The options of an endpoint's policy, and the policy that they make."""

from typing import Annotated

import typer

from shardclock_server.cli.lengths import read_length
from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.webhooks.endpoint import TIMEOUT_S_MAX, TIMEOUT_S_MIN
from shardclock_server.webhooks.policy import RULES

RATE, CONCURRENCY, ATTEMPTS = RULES["rate_per_s"], RULES["concurrency"], RULES["max_attempts"]
DAY_S = 86_400
OF_POLICY = (
    "--concurrency", "--rate", "--timeout", "--max-attempts", "--expires-after", "--give-up-after", "--retry-min",
    "--retry-max",
)  # fmt: skip

Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", min=1, max=CONCURRENCY.most, help="At once from one worker; by default 50."),
]
Rate = Annotated[
    float | None,
    typer.Option("--rate", min=RATE.least, max=RATE.most, metavar="PER_SECOND", help="At most, from one worker."),
]
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="For an answer, 1s to 30s; by default 15s.")
]
MaxAttempts = Annotated[
    int | None, typer.Option("--max-attempts", min=1, max=ATTEMPTS.most, help="By default 20; within three days.")
]
ExpiresAfter = Annotated[
    str | None,
    typer.Option("--expires-after", metavar="DURATION", help="No first attempt so long after its due date."),
]
GiveUpAfter = Annotated[
    str | None,
    typer.Option("--give-up-after", metavar="DURATION", help="No attempt so long after its firing; by default 3d."),
]
RetryMin = Annotated[
    str | None, typer.Option("--retry-min", metavar="DURATION", help="The first pause, and the least; by default 5s.")
]
RetryMax = Annotated[
    str | None, typer.Option("--retry-max", metavar="DURATION", help="The longest pause; by default 12h.")
]
NoRate = Annotated[bool, typer.Option("--no-rate", help="Send as many as there are.")]
NoExpiresAfter = Annotated[bool, typer.Option("--no-expires-after", help="Send also what is due since long ago.")]
NoGiveUpAfter = Annotated[bool, typer.Option("--no-give-up-after", help="Make all attempts, however long it takes.")]


def numbers(concurrency: int | None, rate: float | None, max_attempts: int | None) -> dict[str, float | None]:
    """Return what was said of an endpoint's policy in numbers.

    errors:  Refusal  a number out of its bounds
    """
    if rate is not None and not RATE.least <= rate <= RATE.most:  # nan is in each range, as typer compares
        raise Refusal(f"--rate {rate:g} is refused: it must be a number from {RATE.least:g} to {RATE.most:,}")
    said = {"concurrency": concurrency, "rate_per_s": rate, "max_attempts": max_attempts}
    return {field: value for field, value in said.items() if value is not None}


def lengths(**said: str | None) -> dict[str, float | None]:
    """Return the lengths of time that an endpoint's options say, each by its option's name.

    errors:  Refusal  no length of time, or one out of its bounds
    """
    return {f"{name}_s": _length_s(name, text) for name, text in said.items() if text is not None}


def _length_s(name: str, text: str) -> float:
    option, rule = f"--{name.replace('_', '-')}", RULES[f"{name}_s"]
    least_s, most_s = (TIMEOUT_S_MIN, TIMEOUT_S_MAX) if name == "timeout" else (rule.least, rule.most)
    length_s = read_length(option, text).average().total_seconds()
    if not least_s <= length_s <= most_s:
        most = f"{most_s:g}s" if most_s < DAY_S else f"{most_s / DAY_S:g}d"
        raise Refusal(f"{option} {shortened(text)} is refused: it must be from {least_s:g}s to {most}")
    return length_s


def lifted(**limits: tuple[object, bool]) -> dict[str, float | None]:
    """Return which limits of an endpoint's policy are lifted: of each what was given, and whether it is to go.

    errors:  Refusal  one is given, and is to go
    """
    for field, (given, is_lifted) in limits.items():
        if given is not None and is_lifted:
            option = field.removesuffix("_per_s").removesuffix("_s").replace("_", "-")
            raise Refusal(f"--{option} and --no-{option} exclude each other; leave one of them out")
    return {field: None for field, (_, is_lifted) in limits.items() if is_lifted}
