"""Test which addresses are permitted; each notation and each wrapping of a private address is refused."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.webhooks.addresses import DENIED, METADATA, InvalidNetwork, Networks, is_public, networks_of

PRIVATE = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.254
    168.63.129.16 169.254.169.254 169.254.170.2 169.254.0.23 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192
    192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.7 224.0.0.1 224.0.1.1
    239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::1%lo ::2 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1
    ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::7f00:1
    64:ff9b::a00:1 64:ff9b:1::808:808 64:ff9b::168.63.129.16 100::1 2001::1 2001:0:7f00:1:: 2001:10::1 2001:20::1
    2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe:: 2002:808:808::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fd20:ce::254
    fe80::1 fe80::1%eth0 fe80::a9fe:a9fe%2 fec0::1 ff02::1 ff0e::1 ff05::2%eth0 4000::1 2606:4700::1111%eth0
"""
PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 93.184.216.34 100.63.255.255 100.128.0.1 168.63.129.17 172.15.255.255
    172.32.0.1 192.0.1.1 192.167.255.255 198.17.255.255 198.20.0.1 223.255.255.254 2001:4860:4860::8888
    2606:4700:4700::1111 2a00:1450:4001::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8
"""


@pytest.mark.parametrize("text", PRIVATE.split())
def test_a_private_address_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))
    assert not Networks().permit(text)


@pytest.mark.parametrize("text", PUBLIC.split())
def test_a_public_address_is_public(text: str) -> None:
    assert is_public(ip_address(text))
    assert Networks().permit(text)


def test_an_address_that_a_later_python_calls_private_is_not_public() -> None:
    class Later(IPv4Address):
        is_global = False

    assert is_public(IPv4Address("8.8.8.8"))
    assert not is_public(Later("8.8.8.8"))


@given(st.ip_addresses(v=4))
def test_a_wrapped_address_is_judged_like_the_address(address: IPv4Address) -> None:
    for prefix in (0xFFFF << 32, 0x64FF9B << 96):
        assert is_public(IPv6Address(prefix | int(address))) == is_public(address)


@given(st.sampled_from(DENIED).flatmap(lambda network: st.ip_addresses(network=network)))
def test_no_address_in_a_denied_network_is_public(address: IPv4Address | IPv6Address) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "text",
    [
        "", "localhost", "2130706433", "0x7f000001", "127.1", "127.0.1", "0177.0.0.1", "127.0.0.01", "1.1.1.1.",
        " 1.1.1.1", "1.1.1.1 ", "1.1.1.1\n", "１.1.1.1", "1.1.1", "1.1.1.1/32", "[2606:4700::1111]",
        "2606:4700::1111/128", "8.8.8.8%1",
    ],
)  # fmt: skip
def test_an_address_in_an_unusual_form_is_not_permitted(text: str) -> None:
    assert not networks_of(allowed=["0.0.0.0/0", "::/0"]).permit(text)


def test_the_operator_can_allow_and_deny_networks() -> None:
    networks = networks_of(allowed=["10.0.0.0/8", "fd00::/8"], denied=["10.1.0.0/16", "8.8.8.0/24"])
    inside = ("10.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "fd00::1")
    outside = ("10.1.0.1", "::ffff:10.1.0.1", "8.8.8.8", "127.0.0.1", "fc00::1")
    assert [text for text in inside + outside if networks.permit(text)] == [*inside]


@pytest.mark.parametrize(
    ("denied", "text"), [("64:ff9b::/96", "64:ff9b::808:808"), ("::ffff:0:0/96", "::ffff:8.8.8.8")]
)
def test_the_operator_can_deny_wrapped_addresses(denied: str, text: str) -> None:
    assert networks_of().permit(text)
    assert not networks_of(denied=[denied]).permit(text)


@pytest.mark.parametrize("address", sorted(map(str, METADATA)))
def test_a_metadata_service_is_not_allowed_by_a_wide_network(address: str) -> None:
    wide = ["0.0.0.0/0", "100.64.0.0/10", "169.254.0.0/16", "fd00::/8", "::/0"]
    assert not networks_of(allowed=wide).permit(address)
    assert networks_of(allowed=[address]).permit(address)


@pytest.mark.parametrize("address", ["fd00:42::42", "169.254.42.42", "169.254.169.252", "fe80::a9fe:a9fe"])
def test_metadata_addresses_of_smaller_clouds_are_also_known(address: str) -> None:
    assert not networks_of(allowed=["0.0.0.0/0", "::/0"]).permit(address)


@pytest.mark.parametrize(
    "text", ["fd00:ec2::254%1", "fd00:ec2::23%lo", "fd00::1%1", "::ffff:169.254.169.254%1", "64:ff9b::808:808%1"]
)
def test_an_address_with_a_zone_is_never_permitted(text: str) -> None:
    assert not networks_of(allowed=["0.0.0.0/0", "::/0"]).permit(text)
    assert not networks_of(allowed=[text.partition("%")[0]]).permit(text)


@pytest.mark.parametrize("text", ["", "10.0.0.1/8", "10.0.0.0/33", "ten", "10.0.0.0/8 "])
def test_an_invalid_network_is_refused(text: str) -> None:
    with pytest.raises(InvalidNetwork, match="is refused: it must be an address and a prefix length, such as"):
        networks_of(allowed=[text])
