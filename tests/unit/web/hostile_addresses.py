"""URLs that some resolver, browser or attacker takes for loopback."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from itertools import product

LOOPBACK = ("127.0.0.1", "127.0.0.53", "127.1.2.3", "127.255.255.254", "0.0.0.0")


def hostile_urls(port: int) -> list[str]:
    """Return distinct URLs with the port of a canary server."""
    hosts = [
        *_hosts(),
        "localhost",
        "LOCALHOST",
        "localhost.",
        "sub.localhost",
        "ip6-localhost",
        "localhost.localdomain",
    ]
    urls = [f"http://{host}:{port}/" for host in hosts]
    return list(dict.fromkeys([*urls, *_tricks(port)]))


def rebinding() -> Iterator[tuple[str, list[str]]]:
    """Yield host names and the addresses that they resolve to in turn; `%` stands for a working public one."""
    inside = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "127.0.0.53", "::", "64:ff9b::7f00:1", "2002:7f00:1::"]
    for number, address in enumerate(inside):
        yield f"at-once-{number}.example", [address]
        yield f"second-{number}.example", ["%", address]
        yield f"third-{number}.example", ["%", "%", address]
        yield f"beside-{number}.example", [f"% {address}"]
        yield f"before-{number}.example", [f"{address} %"]
        yield f"flip-{number}.example", ["%", address, "%", address]


def _hosts() -> Iterator[str]:
    for text in LOOPBACK:
        yield text
        yield f"{text}."
        yield from _numbers(IPv4Address(text))
        yield from _carried(IPv4Address(text))
        yield from _other_digits(text)
    yield from ("[::1]", "[0:0:0:0:0:0:0:1]", "[::0001]", "[::]", "[0::1]", "[::1%25lo]", "[::1%lo]", "[fe80::1%25lo]")


def _numbers(address: IPv4Address) -> Iterator[str]:
    """Yield notations that C libraries and browsers accept for the same address."""
    value, parts = int(address), address.packed
    yield from (str(value), hex(value), oct(value).replace("0o", "0"), f"0x{value:X}", f"0{value:o}", f"0x{value:010x}")
    yield from (f"{parts[0]}.{value & 0xFFFFFF}", f"{parts[0]}.{parts[1]}.{value & 0xFFFF}")
    yield from (f"0x{parts[0]:x}.{value & 0xFFFFFF}", f"0{parts[0]:o}.{parts[1]}.{value & 0xFFFF}")
    for write in (
        lambda n: f"0{n:o}",
        lambda n: f"0x{n:x}",
        lambda n: f"0x{n:02X}",
        lambda n: f"{n:03d}",
        lambda n: f"00000{n:o}",
    ):
        yield ".".join(map(write, parts))
    for first, rest in product((lambda n: f"0{n:o}", lambda n: f"0x{n:x}"), (str, lambda n: f"0x{n:x}")):
        yield ".".join([first(parts[0]), *map(rest, parts[1:])])
    yield str(value + (1 << 32))


def _carried(address: IPv4Address) -> Iterator[str]:
    """Yield IPv6 addresses that embed it."""
    value = int(address)
    for prefix in (
        "::ffff:0:0",
        "::",
        "64:ff9b::",
        "64:ff9b:1::",
        "::ffff:0:0:0",
        "2001:db8::5efe:0:0",
        "fe80::5efe:0:0",
    ):
        yield f"[{IPv6Address(int(IPv6Address(prefix)) | value)}]"
    yield f"[::ffff:{address}]"
    yield f"[::FFFF:{address}]"
    yield f"[::{address}]"
    yield f"[64:ff9b::{address}]"
    yield f"[{IPv6Address(int(IPv6Address('2002::')) | value << 80)}]"
    yield f"[{IPv6Address(int(IPv6Address('2001::')) | value << 64)}]"
    yield f"[{IPv6Address(int(IPv6Address('2001::')) | value ^ 0xFFFFFFFF)}]"
    yield f"[{IPv6Address(int(IPv6Address('2606:4700::5efe:0:0')) | value)}]"
    yield f"[{IPv6Address(int(IPv6Address('2606:4700::200:5efe:0:0')) | value)}]"


def _other_digits(text: str) -> Iterator[str]:
    """Yield it in digits and dots of other scripts, and in encodings."""
    for zero in (0xFF10, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x0660, 0x06F0, 0x0966, 0x1FBF0):
        yield "".join(chr(zero + int(c)) if c.isdigit() else c for c in text)
    yield "".join("⓪①②③④⑤⑥⑦⑧⑨"[int(c)] if c.isdigit() else c for c in text)
    yield "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)] if c.isdigit() else c for c in text)
    for dot in "。．｡․":
        yield text.replace(".", dot)
    yield "".join(f"%{ord(c):02x}" for c in text)
    yield text.replace(".", "%2e")
    yield text.replace(".", "%E3%80%82")
    for hidden in ("\u00ad", "\u200b", "\u200d", "\u2060", "\ufeff", "\t", "\n", "\r", " ", "\x00"):
        yield text.replace(".", f"{hidden}.", 1)
    yield f"{text}\u3002"
    yield f"{text}%00.example.com"


def _tricks(port: int) -> Iterator[str]:
    """Yield URLs that two parsers read differently."""
    here = f"127.0.0.1:{port}"
    for good in ("example.com", "example.com:80", "93.184.216.1"):
        yield f"http://{good}@{here}/"
        yield f"http://{here}@{good}@{here}/"
        yield f"http://user:{good}@{here}/"
        yield f"http://{good}%40{here}/"
        yield f"http://{here}\\@{good}/"
        yield f"http://{good}\\@{here}/"
        yield f"http://{here}#@{good}/"
        yield f"http://{here}?@{good}/"
        yield f"http://{here};@{good}/"
        yield f"http://{here} {good}/"
        yield f"http://{good} @{here}/"
        yield f"http://[{good}]@{here}/"
        yield f"http://{good}%23@{here}/"
    for scheme in (
        "file",
        "ftp",
        "gopher",
        "ws",
        "wss",
        "dict",
        "ldap",
        "jar:http",
        "view-source:http",
        "unix",
        "data",
    ):
        yield f"{scheme}://{here}/"
    for written in (
        "HTTP://",
        "hTTp://",
        "http:",
        "http:/",
        "http:///",
        "http:////",
        "//",
        "",
        "http:\\\\",
        "\thttp://",
        " http://",
    ):
        yield f"{written}{here}/"
    for strange in (
        "%31%32%37.0.0.1",
        "127.0.0.1%20",
        "127.0.0.1%2f",
        "[127.0.0.1]",
        "127.0.0.1,",
        "127。0。0。1",
        "①②⑦.⓪.⓪.①",
    ):
        yield f"http://{strange}:{port}/"
    yield from (f"http://127.0.0.1:0{port}/", f"http://127.0.0.1:+{port}/", f"http://127.0.0.1:{port}:80/")
    yield from (f"http://127.0.0.1:{port}%2f@example.com/", f"https://{here}/", f"https://[::1]:{port}/")
