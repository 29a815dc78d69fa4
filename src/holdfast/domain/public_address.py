"""Which addresses belong to the public internet: nothing else may be reached in the name of an agent.

Refused is whatever can lead to this machine, to its neighbours or to whoever hosts it. An IPv6 address that carries an
IPv4 address is judged by that one, where there are such routes today; the tunnels of the past are refused altogether.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from holdfast.domain.web_url import IPAddress

# What Python calls global differs between its versions, and has holes: this list is the whole truth.
_NOT_PUBLIC_4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this machine
            "10.0.0.0/8",
            "100.64.0.0/10",  # behind the address translation of a provider
            "127.0.0.0/8",
            "168.63.129.16/32",  # what Azure tells its machines: public by number only
            "169.254.0.0/16",  # neighbours, and what most clouds tell their machines
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",  # the relays of 6to4
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # to many
            "240.0.0.0/4",  # reserved, and to all
        ),
    )
)
_UNICAST: Final = IPv6Network("2000::/3")
"""Of IPv6 only this part is public."""
_NOT_PUBLIC_6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocols, among them Teredo
            "2001:db8::/32",
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""How a network without IPv4 reaches it."""
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
"""The middle of an address that carries another for a tunnel within a site."""


def is_public(address: IPAddress) -> bool:
    """Say whether an address belongs to the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    carried = _carried(address)
    if carried is not None:
        return is_public(carried)
    return address in _UNICAST and not any(address in network for network in _NOT_PUBLIC_6)


def _carried(address: IPv6Address) -> IPv4Address | None:
    """Return the address that is reached by way of this one, if it is another."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    value = int(address)
    if address in _NAT64 or (value >> 32) & 0xFFFFFFFF in _ISATAP and address in _UNICAST:
        return IPv4Address(value & 0xFFFFFFFF)
    return None
