"""After failed starts, new actors are started more slowly."""

from shardclock_server.coordinator.backoff import PAUSE_MAX_S, STARTING_S, SpawnBackoff, StartWatch


def test_one_failed_start_causes_no_pause_and_further_ones_cause_longer_pauses() -> None:
    backoff = SpawnBackoff()
    backoff.learn_ages([STARTING_S / 2], now_s=100.0)
    assert backoff.may_spawn(now_s=100.0)
    backoff.learn_ages([STARTING_S / 2], now_s=100.0)
    assert not backoff.may_spawn(now_s=101.0)
    assert backoff.may_spawn(now_s=102.0)
    backoff.learn_ages([STARTING_S / 2] * 20, now_s=200.0)
    assert not backoff.may_spawn(now_s=200.0 + PAUSE_MAX_S - 1)
    assert backoff.may_spawn(now_s=200.0 + PAUSE_MAX_S)


def test_starts_that_fail_for_days_are_still_retried() -> None:
    backoff = SpawnBackoff()

    backoff.learn_ages([STARTING_S / 2] * 10_000, now_s=100.0)

    assert backoff.may_spawn(now_s=100.0 + PAUSE_MAX_S)


def test_an_actor_that_lived_for_a_while_resets_the_count_of_failures() -> None:
    backoff = SpawnBackoff()
    backoff.learn_ages([STARTING_S / 2, STARTING_S + 1], now_s=100.0)
    assert backoff.may_spawn(now_s=100.0)
    backoff.learn_ages([STARTING_S / 2], now_s=100.0)
    assert backoff.may_spawn(now_s=100.0)


def test_starts_count_as_failing_from_the_first_failure_until_a_keeper_lives() -> None:
    starts = StartWatch()
    starts.learn(given_up=False, has_keepers=False, now_s=90.0)
    assert starts.failing_s(now_s=95.0) == 0, "the first ones may still come up"

    starts.learn(given_up=True, has_keepers=False, now_s=100.0)
    starts.learn(given_up=False, has_keepers=False, now_s=110.0)
    starts.learn(given_up=True, has_keepers=False, now_s=130.0)
    assert starts.failing_s(now_s=131.0) == 31.0

    starts.learn(given_up=True, has_keepers=True, now_s=132.0)
    assert starts.failing_s(now_s=140.0) == 0
