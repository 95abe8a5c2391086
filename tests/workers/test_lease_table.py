"""The lease table of a worker, including a delivery that the worker has claimed twice."""

from __future__ import annotations

from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.lease_table import LeaseTable
from tests.support.handlers import delivery


def test_a_claim_is_leased_until_it_is_settled() -> None:
    leases = LeaseTable[ClaimedDelivery]()
    leases.take([delivery(1), delivery(2)], now_s=10.0)

    leases.drop([delivery(1), delivery(7)])

    assert len(leases) == 1
    assert leases.renewed_before(11.0) == [delivery(2)]


def test_a_delivery_that_was_claimed_again_is_kept_when_its_first_claim_is_settled() -> None:
    leases = LeaseTable[ClaimedDelivery]()
    leases.take([delivery(1, claims=1)], now_s=10.0)
    leases.take([delivery(1, claims=2)], now_s=20.0)

    leases.drop([delivery(1, claims=1)])

    assert leases.renewed_before(21.0) == [delivery(1, claims=2)]


def test_a_lease_becomes_old_again_after_its_renewal() -> None:
    leases = LeaseTable[ClaimedDelivery]()
    leases.take([delivery(1), delivery(2)], now_s=10.0)

    leases.renew([delivery(1)], now_s=13.0)

    assert leases.renewed_before(12.0) == [delivery(2)]
    assert len(leases.renewed_before(14.0)) == 2


def test_an_ended_lease_is_not_held() -> None:
    leases = LeaseTable[ClaimedDelivery]()
    leases.take([delivery(1, claims=2)], now_s=10.0)

    assert leases.held([delivery(1, claims=2), delivery(1, claims=1)], since_s=10.0) == [delivery(1, claims=2)]
    assert leases.held([delivery(1, claims=2)], since_s=10.1) == []


def test_a_renewal_does_not_restore_a_settled_claim() -> None:
    leases = LeaseTable[ClaimedDelivery]()
    leases.take([delivery(1)], now_s=10.0)
    leases.drop([delivery(1)])

    leases.renew([delivery(1)], now_s=13.0)

    assert len(leases) == 0
