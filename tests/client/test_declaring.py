"""Test that an invalid handler is refused at its declaration, with the value, the rule and the remedy."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest
from pydantic import BaseModel

import shardclock
from shardclock import Handler, InvalidHandler, Timer, on_timer
from shardclock.handler import declared

if TYPE_CHECKING:
    from decimal import Decimal

Declare = Callable[..., Handler]
T = TypeVar("T")


class Order(BaseModel):
    order: int


class Opaque(Generic[T]):
    """A class that pydantic can't read."""


def expire(timer: Timer) -> None: ...


def expire_too(timer: Timer) -> None: ...


def test_a_declared_function_is_unchanged_and_its_policy_is_in_seconds() -> None:
    given_back = on_timer(
        "order.expired",
        max_attempts=3,
        timeout=timedelta(seconds=5),
        retry_min="PT2S",
        retry_max="PT1M",
        give_up_after="P1D",
        expires_after="PT1H",
        concurrency=4,
        rate_per_s=2.5,
        priority=4,
        num_cpus=0.5,
        memory_mib=256,
    )(expire)

    assert given_back is expire
    (handler,) = [handler for handler in declared() if handler.function is expire]
    assert (handler.target, handler.reference) == ("order.expired", f"{__name__}:expire")
    assert handler.policy == shardclock.Policy(
        max_attempts=3,
        timeout_s=5,
        retry_min_s=2,
        retry_max_s=60,
        give_up_after_s=86_400,
        expires_after_s=3_600,
        concurrency=4,
        rate_per_s=2.5,
        batch=1,
        priority=4,
        num_cpus=0.5,
        memory_mib=256,
    )


@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        ({"max_attempts": 0}, "max_attempts 0 is refused: it must be a whole number from 1 to 1,000"),
        ({"max_attempts": 1_001}, "max_attempts 1001 is refused: it must be a whole number from 1 to 1,000"),
        ({"max_attempts": True}, "max_attempts True is refused: it must be a whole number from 1 to 1,000"),
        ({"max_attempts": "3"}, "max_attempts '3' is refused: it must be a whole number from 1 to 1,000"),
        ({"timeout": "PT0S"}, "timeout 'PT0S' is refused: it must be a duration from PT0.01S to P1D"),
        ({"timeout": "P1DT1S"}, "timeout 'P1DT1S' is refused: it must be a duration from PT0.01S to P1D"),
        ({"timeout": 30}, "timeout 30 is neither an ISO 8601 duration nor a timedelta; write one such as PT30S"),
        (
            {"timeout": "30s"},
            "timeout '30s' is not an ISO 8601 duration; write PT30S",
        ),
        (
            {"expires_after": "P1M"},
            (
                "expires_after 'P1M' has years or months, whose length depends on the date; write weeks, days, hours,"
                " minutes and seconds instead, such as P30D"
            ),
        ),
        (
            {"retry_min": "PT2H"},
            (
                "retry_min (7200 s) is longer than retry_max (3600 s); a retry waits from retry_min to retry_max, so"
                " lower retry_min or raise retry_max"
            ),
        ),
        ({"retry_min": "PT0S"}, "retry_min 'PT0S' is refused: it must be a duration from PT0.1S to P1D"),
        ({"retry_max": "P31D"}, "retry_max 'P31D' is refused: it must be a duration from PT0.1S to P30D"),
        (
            {"give_up_after": "PT0.5S"},
            (
                "give_up_after (0.5 s) is shorter than retry_min (1 s), so no second attempt would ever come; raise"
                " give_up_after, or set max_attempts=1"
            ),
        ),
        (
            {"give_up_after": "PT20S"},
            (
                "give_up_after (20 s) is shorter than timeout (30 s), so an attempt that takes too long would be the"
                " last; raise give_up_after, lower timeout, or set max_attempts=1"
            ),
        ),
        (
            {"expires_after": "PT2H", "give_up_after": "PT1H"},
            (
                "expires_after (7200 s) is longer than give_up_after (3600 s), so a delivery would be given up before"
                " it expires; lower expires_after, or raise give_up_after"
            ),
        ),
        ({"batch": 0}, "batch 0 is refused: it must be a whole number from 1 to 1,000"),
        ({"batch": 1_001}, "batch 1001 is refused: it must be a whole number from 1 to 1,000"),
        ({"concurrency": 0}, "concurrency 0 is refused: it must be a whole number from 1 to 1,000"),
        ({"concurrency": 1_001}, "concurrency 1001 is refused: it must be a whole number from 1 to 1,000"),
        ({"rate_per_s": 0}, "rate_per_s 0 is refused: it must be a number from 0.001 to 100,000"),
        ({"rate_per_s": float("nan")}, "rate_per_s nan is refused: it must be a number from 0.001 to 100,000"),
        ({"num_cpus": -1}, "num_cpus -1 is refused: it must be a number from 0 to 1,024"),
        ({"priority": 0}, "priority 0 is refused: it must be a whole number from 1 to 4"),
        ({"memory_mib": 0}, "memory_mib 0 is refused: it must be a whole number from 1 to 1,048,576"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_number_out_of_bounds_is_refused(limits: dict[str, Any], refusal: str) -> None:
    with pytest.raises(InvalidHandler) as refused:
        on_timer("order.expired", **limits)(expire)
    assert str(refused.value) == f"{__name__}:expire: {refusal}"


def test_a_policy_with_one_attempt_needs_no_time_for_a_retry() -> None:
    assert on_timer("order.expired", give_up_after="PT0.5S", max_attempts=1)(expire) is expire


@pytest.mark.parametrize(
    "target", ["", "a" * 201, "Order.Expired", "order expired", "-order", ".order", "ärger", "a\n", "a/b", 7, None]
)
def test_an_invalid_target_name_is_refused(target: Any) -> None:
    with pytest.raises(
        InvalidHandler,
        match=r"^tests.*:expire: target .* must be 1 to 200 characters of a-z, 0-9, _ \. : and -, and begin with a",
    ):
        on_timer(target)(expire)


@pytest.mark.parametrize("target", ["a", "7", "a" * 200, "order.expired", "a_b:c-d.e", "logs", "webhooks"])
def test_a_valid_target_name_is_accepted(target: str) -> None:
    assert on_timer(target)(expire) is expire


@pytest.mark.parametrize("target", ["log", "webhook:", "webhook:https", "job:refresh"])
def test_a_built_in_target_is_refused(target: str) -> None:
    built_in = "log, webhook:…, job:… and process:… are built in; choose another"
    refusal = rf"^{__name__}:expire: target '{target}' is no handler's: {built_in}$"
    with pytest.raises(InvalidHandler, match=refusal):
        on_timer(target)(expire)


def test_a_decorator_without_its_target_is_refused() -> None:
    with pytest.raises(InvalidHandler, match=r'is written without its target .*; write @on_timer\("order.expired"\)$'):
        on_timer(expire)  # type: ignore[arg-type]


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match=r"^on_timer has no option 'timout'; is timeout meant\?$"):
        on_timer("order.expired", timout="PT5S")  # type: ignore[call-arg]


def test_a_taken_target_is_refused_with_both_functions() -> None:
    on_timer("order.expired")(expire)

    with pytest.raises(InvalidHandler) as refused:
        on_timer("order.expired")(expire_too)

    assert str(refused.value) == (
        f"target 'order.expired' is taken: {__name__}:expire has it, so {__name__}:expire_too can't have it;"
        " give each function its own target"
    )
    on_timer("order.other")(expire_too)


def test_a_function_that_is_imported_again_replaces_itself(declare: Declare) -> None:
    def expire(timer: Timer) -> None: ...

    on_timer("order.expired")(globals()["expire"])
    declare(expire, target="order.expired")

    assert [handler.function for handler in declared() if handler.target == "order.expired"] == [expire]


def test_a_function_within_a_function_is_refused() -> None:
    def expire(timer: Timer) -> None: ...

    for function in (expire, lambda _: None):
        with pytest.raises(InvalidHandler, match=r"<locals>.* can't be found by another process, which imports pack"):
            on_timer("order.expired")(function)


def test_a_method_is_refused() -> None:
    with pytest.raises(InvalidHandler, match=r"^handler pydantic\.main:BaseModel\.json can't be found by another"):
        on_timer("order.expired")(BaseModel.json)


@pytest.mark.parametrize("value", [functools.partial(expire), Order, print, 7], ids=lambda value: type(value).__name__)
def test_a_value_that_is_not_a_function_is_refused(value: Any) -> None:
    with pytest.raises(InvalidHandler, match=r"of target 'tested' is not a function; write a def, or an async def"):
        on_timer("tested")(value)


def test_a_generator_is_refused(declare: Declare) -> None:
    def plain(timer: Timer) -> Iterator[int]:
        yield 1

    async def asynchronous(timer: Timer) -> AsyncIterator[int]:
        yield 1

    for function in (plain, asynchronous):
        with pytest.raises(InvalidHandler, match=f"{function.__name__} is a generator, which would never run; take"):
            declare(function)


def test_a_function_that_can_not_be_called_with_one_argument_is_refused(declare: Declare) -> None:
    def none() -> None: ...
    def two(timer: Timer, other: int) -> None: ...
    def by_name(*, timer: Timer) -> None: ...
    def more(timer: Timer, *, other: int) -> None: ...

    for function in (none, two, by_name, more):
        with pytest.raises(InvalidHandler, match=r"and it is called with one positional argument; take one, and give"):
            declare(function)


def test_parameters_with_a_default_are_ignored(declare: Declare) -> None:
    def one(timer: Timer, *, other: int = 7) -> None: ...
    def any_(*timers: Timer) -> None: ...

    for function in (one, any_):
        assert not declare(function).takes_batch


def test_the_annotation_decides_about_batches_and_the_payload_type(declare: Declare) -> None:
    def bare(timer) -> None: ...  # type: ignore[no-untyped-def]
    def plain(timer: Timer) -> None: ...
    def typed(timer: Timer[Order]) -> None: ...
    def some(timers: list[Timer]) -> None: ...
    def orders(timers: Sequence[shardclock.Timer[Order]]) -> None: ...
    def anything(timers: list[Any]) -> None: ...

    ones = [declare(function) for function in (bare, plain, typed)]
    batches = [declare(function, batch=7) for function in (bare, some, orders, anything)]

    assert [handler.takes_batch for handler in ones + batches] == [False] * 3 + [True] * 4
    assert [handler.payload is not None for handler in ones] == [False, False, True]
    assert [handler.payload is not None for handler in batches] == [False, False, True, False]


def test_an_annotation_of_another_type_is_refused(declare: Declare) -> None:
    def of_order(timer: Order) -> None: ...
    def of_dict(timer: dict[str, Any]) -> None: ...
    def maybe(timer: Timer | None) -> None: ...
    def orders(timer: list[Order]) -> None: ...

    for function in (of_order, of_dict, maybe, orders):
        with pytest.raises(InvalidHandler, match=r"and it is called with a timer; annotate it as shardclock\.Timer"):
            declare(function, batch=7)


def test_a_batch_and_its_annotation_must_agree(declare: Declare) -> None:
    def one(timer: Timer) -> None: ...
    def some(timers: list[Timer]) -> None: ...

    with pytest.raises(InvalidHandler, match=r"takes one timer, and batch is 7; take a list\[Timer\], or leave batch"):
        declare(one, batch=7)
    with pytest.raises(
        InvalidHandler, match=r"takes a list of timers, and batch is 1; set the largest number, such as"
    ):
        declare(some)


def test_an_annotation_imported_only_for_type_checkers_is_refused(declare: Declare) -> None:
    def pay(timer: Timer[Decimal]) -> None: ...

    with pytest.raises(
        InvalidHandler, match=r"\(\"name 'Decimal' is not defined\"\); import or define its names above"
    ):
        declare(pay)


def test_a_result_annotation_imported_only_for_type_checkers_is_ignored(declare: Declare) -> None:
    def pay(timer: Timer) -> Decimal: ...  # type: ignore[empty-body]

    assert declare(pay).payload is None


def test_a_payload_that_pydantic_can_not_read_is_refused(declare: Declare) -> None:
    def pay(timer: Timer[Opaque[int]]) -> None: ...

    with pytest.raises(InvalidHandler, match=r"which can't be read from JSON \(.+\); take a pydantic model or a data"):
        declare(pay)


def test_a_refusal_of_any_value_is_one_line_of_limited_length() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError

    class Loud:
        def __repr__(self) -> str:
            return "x\n\0\ud800"

    for value in ("x\n\0\ud800" * 1_000, Shy(), Loud(), 10**5_000):
        with pytest.raises(InvalidHandler) as refused:
            on_timer("tested", max_attempts=value)(expire)  # type: ignore[arg-type]
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 200
