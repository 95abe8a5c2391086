"""Prove that places are given back, and that nobody has more than there are."""

from __future__ import annotations

import pytest

from gateway.places import Places


def test_places_are_taken_and_given_back_also_after_an_error() -> None:
    places = Places(2)
    with places.one(), places.one():
        assert (places.taken, places.is_full) == (2, True)
    with pytest.raises(ZeroDivisionError), places.one():
        raise ZeroDivisionError
    assert (places.taken, places.is_full) == (0, False)
