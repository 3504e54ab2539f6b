"""Text to values: what people write for sizes, times, ports and hosts, and what is refused."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.config import options as values


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8192", 8192),
        ("1k", 1024),
        ("64K", 65536),
        ("16 MiB", 16 << 20),
        ("16mb", 16 << 20),
        ("2G", 2 << 30),
        ("1.5g", 3 << 29),
        ("1T", 1 << 40),
        ("7B", 7),
    ],
)
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert values.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10", 10.0), ("0.5", 0.5), ("500ms", 0.5), ("2m", 120.0), ("1 h", 3600.0), ("7d", 604800.0)],
)
def test_times_may_carry_a_unit(text: str, seconds: float) -> None:
    assert values.parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "port"), [("0", 0), ("8003", 8003), ("65535", 65535), ("off", None), ("OFF", None)]
)
def test_a_port_is_a_number_or_off(text: str, port: int | None) -> None:
    assert values.parse_port(text) == port


@pytest.mark.promise("A.loopback")
@pytest.mark.parametrize(
    ("text", "host"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "::1"), ("[::1]", "::1")],
)
def test_loopback_is_served(text: str, host: str) -> None:
    assert values.parse_host(text) == host


@pytest.mark.parametrize(
    ("text", "host"),
    [("0.0.0.0", "0.0.0.0"), ("::", "::"), ("[FD00::1]", "fd00::1"), ("192.0.2.1", "192.0.2.1")],
)
def test_other_addresses_are_taken_as_they_are(text: str, host: str) -> None:
    assert values.parse_host(text) == host


@pytest.mark.parametrize("text", ["*", "example.com", "127.0.0.1.evil.example", "", "127.1", "300.0.0.1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an address of this machine"):
        values.parse_host(text)


def test_host_names_come_without_anything_around_them() -> None:
    assert values.parse_names("Box.Example, *.team.example,[::1],box.example:9443,[::1]:80") == (
        "box.example",
        "*.team.example",
        "[::1]",
        "box.example:9443",
        "[::1]:80",
    )
    for text in ("https://box.example", "box.example/path", "a b", "..", "*", "b:0", "b:99999", "b:", "::1"):
        with pytest.raises(ValueError, match="no host name"):
            values.parse_names(text)


def test_words_stand_between_commas() -> None:
    assert values.parse_words(" git, ls ,,make ") == ("git", "ls", "make")
    assert values.parse_words("") == ()


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("yes", True), ("On", True), ("0", False), ("off", False)]
)
def test_a_switch_in_the_environment(text: str, value: bool) -> None:
    assert values.parse_switch(text) is value


def test_a_level_is_one_of_four() -> None:
    assert values.parse_level("DEBUG") == "debug"
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        values.parse_level("loud")


def test_a_folder_holds_no_nul() -> None:
    assert values.parse_folder("a/b") == "a/b"
    with pytest.raises(ValueError, match="NUL"):
        values.parse_folder("a\0b")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (values.parse_size, "0"),
        (values.parse_size, "-1"),
        (values.parse_size, "ten"),
        (values.parse_size, "1Q"),
        (values.parse_size, "1.2.3k"),
        (values.parse_size, "9" * 400),
        (values.parse_seconds, "soon"),
        (values.parse_seconds, "-3"),
        (values.parse_seconds, "1y"),
        (values.parse_seconds, "."),
        (values.parse_port, "65536"),
        (values.parse_port, "http"),
        (values.parse_port, "-1"),
        (values.parse_count, "0"),
        (values.parse_count, "1.5"),
        (values.parse_count, "many"),
        (values.parse_switch, "perhaps"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=" "):
        parse(text)


_PARSERS = [parse for name, parse in vars(values).items() if name.startswith("parse_")]


@given(parse=st.sampled_from(_PARSERS), text=st.text(max_size=30))
def test_any_text_gives_a_value_or_a_sentence(parse: Callable[[str], object], text: str) -> None:
    sentences = []
    try:
        parse(text)
    except ValueError as error:
        sentences.append(str(error))
    assert all(" " in sentence for sentence in sentences)


def test_addresses_of_websockets() -> None:
    assert values.parse_addresses("") == ()
    found = values.parse_addresses("ws://127.0.0.1:3001, wss://box.example/?token=x")
    assert found == ("ws://127.0.0.1:3001", "wss://box.example/?token=x")


@pytest.mark.parametrize(
    "text",
    ["http://box", "box:3000", "ws://", "ws:///x", "ws://me@box", "ws://box/#part", "//box", "ws:/box"],
)
def test_what_is_no_address_is_refused_without_its_query(text: str) -> None:
    with pytest.raises(ValueError, match="WebSocket") as refused:
        values.parse_addresses(f"{text}?token=secret" if "#" not in text else text)
    assert "secret" not in str(refused.value)


def test_a_wait_is_longer_than_nothing() -> None:
    assert values.parse_wait("200ms") == 0.2
    with pytest.raises(ValueError, match="more than 0 s"):
        values.parse_wait("0")
