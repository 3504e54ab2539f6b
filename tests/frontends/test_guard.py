"""The guard's decision, as a table: Host and Origin are compared by their parsed value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import SLUGS
from outlive.server.access.guard import Names, judge
from outlive.server.error_formats import STATUS

_PORT = 8003


def _scope(*headers: tuple[str, str], port: int | None = _PORT, path: str = "/") -> dict[str, object]:
    return {
        "type": "http",
        "server": ("127.0.0.1", port) if port is not None else ("/run/server.sock", None),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "path": path,
        "state": {},
    }


def _judge(*headers: tuple[str, str], port: int | None = _PORT, path: str = "/") -> str | None:
    refusal = judge(_scope(*headers, port=port, path=path))
    return refusal.error if refusal is not None else None


@pytest.mark.promise("A.host")
@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8003",
        "LocalHost:8003",
        "127.0.0.1",
        "127.0.0.1:8003",
        "[::1]",
        "[::1]:8003",
        "localhost:9003",  # ssh -L 9003:localhost:8003
        "127.0.0.1:80",
    ],
)
def test_our_own_names_pass_with_any_port_or_none(host: str) -> None:
    assert _judge(("Host", host)) is None


@pytest.mark.promise("A.host")
@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.com",
        "localhost.evil.com:8003",
        "127.0.0.1.evil.com",
        "localhost:",
        "localhost:8003:8003",
        "localhost.",
        "localhost@evil.com",
        "evil@localhost",
        "::1",
        "[::1",
        "[::1%25eth0]",
        "[::ffff:127.0.0.1]:8003",
        "127.1",
        "2130706433",
        "0.0.0.0:8003",
        "127.0.0.2:8003",
        "localhost:08003x",
        "localhost 8003",
        "localhost\n",
        "localhost:\u00b9",
    ],
)
def test_every_other_host_is_foreign(host: str) -> None:
    assert _judge(("Host", host)) == "foreign_host"


@pytest.mark.promise("A.host")
def test_exactly_one_host_is_needed() -> None:
    assert _judge() == "foreign_host"
    assert _judge(("Host", "localhost"), ("Host", "evil.example")) == "foreign_host"
    assert _judge(("Host", "localhost"), ("Host", "localhost")) == "foreign_host"


@pytest.mark.promise("A.origin")
@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:8003",
        "http://127.0.0.1:8003",
        "http://[::1]:8003",
        "HTTP://LOCALHOST:8003",
        "http://localhost:9003",
        "http://localhost",
        "https://localhost:5173",
    ],
)
def test_pages_of_this_machine_pass_the_guard_whichever_port_they_are_from(origin: str) -> None:
    assert _judge(("Host", "localhost:8003"), ("Origin", origin)) is None


@pytest.mark.promise("A.origin")
@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "http://localhost.evil.com:8003",
        "http://localhost:8003.evil.com",
        "http://localhost:8003/",
        "http://localhost:8003@evil.com",
        "http://evil.com#http://localhost:8003",
        "http://127.0.0.1:8003,http://evil.com",
        "ws://localhost:8003",
        "vscode-webview://localhost:8003",
        "localhost:8003",
        "file://",
    ],
)
def test_every_other_origin_is_foreign(origin: str) -> None:
    assert _judge(("Host", "localhost:8003"), ("Origin", origin)) == "foreign_origin"


@pytest.mark.promise("A.origin")
def test_a_second_origin_is_foreign_whatever_the_first_says() -> None:
    own = ("Origin", "http://localhost:8003")
    assert _judge(("Host", "localhost:8003"), own, own) == "foreign_origin"


def test_the_unix_socket_takes_any_host() -> None:
    assert _judge(("Host", "whatever"), port=None) is None
    assert _judge(port=None) is None


@pytest.mark.promise("A.origin")
def test_no_web_page_comes_through_the_unix_socket() -> None:
    assert _judge(("Origin", "http://localhost"), port=None) == "foreign_origin"


@given(
    host=st.text(st.characters(max_codepoint=255), max_size=40),
    origin=st.text(st.characters(max_codepoint=255)),
)
def test_no_text_upsets_the_guard(host: str, origin: str) -> None:
    _judge(("Host", host))
    _judge(("Host", "localhost"), ("Origin", origin))


def test_every_error_has_an_http_status() -> None:
    assert set(STATUS) == set(SLUGS)
    assert all(400 <= status < 600 for status in STATUS.values())


@pytest.mark.promise("S4.10")
def test_an_origin_that_was_allowed_passes_as_it_is_and_no_other() -> None:
    allowed = frozenset({"https://app.example", "vscode-webview://abc"})

    def judged(origin: str) -> str | None:
        refusal = judge(_scope(("Host", "localhost:8003"), ("Origin", origin)), origins=allowed)
        return refusal.error if refusal is not None else None

    for origin in ("https://app.example", "HTTPS://APP.example", "vscode-webview://abc"):
        assert judged(origin) is None
    for origin in ("https://app.example:444", "http://app.example", "https://app.example.evil.com", "null"):
        assert judged(origin) == "foreign_origin"


@pytest.mark.promise("A.origin.metadata")
@pytest.mark.parametrize("site", ["cross-site", "same-site", "new-word", ""])
def test_fetch_metadata_counts_as_an_origin(site: str) -> None:
    own = ("Host", "localhost:8003")
    assert _judge(own, ("Sec-Fetch-Site", site)) == "foreign_origin"
    assert _judge(own, ("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", site)) == "foreign_origin"
    assert _judge(own, ("Sec-Fetch-Site", site), port=None) == "foreign_origin"
    assert _judge(own, ("Sec-Fetch-Site", site), ("Origin", "http://localhost:1")) is None


@pytest.mark.promise("A.host.public")
def test_a_public_name_with_a_port_counts_with_that_port_only() -> None:
    names = Names(frozenset({"box.example:9443", "*.team.example:443"}))
    assert names.include("box.example", 9443)
    assert not names.include("box.example", 443)
    assert names.include("a.team.example", 443)
    assert not names.include("a.team.example", 9443)


@pytest.mark.promise("A.host")
def test_a_public_name_counts_with_any_port_and_a_wildcard_for_one_level() -> None:
    names = Names(frozenset({"box.example", "*.team.example", "192.168.1.5", "[fd00::1]"}))

    def judged(host: str, origin: str = "", scheme: str = "https") -> str | None:
        headers = [("Host", host)] + ([("Origin", origin)] if origin else [])
        refusal = judge({**_scope(*headers), "scheme": scheme}, names=names)
        return refusal.error if refusal is not None else None

    for host in (
        "box.example",
        "BOX.example:443",
        "a.team.example",
        "192.168.1.5:9",
        "[fd00::1]:9",
        "localhost",
    ):
        assert judged(host) is None
    for host in (
        "a.box.example",
        "team.example",
        "a.b.team.example",
        "xteam.example",
        "192.168.1.50",
        "box.example.",
    ):
        assert judged(host) == "foreign_host"
    assert judged("box.example", "https://box.example:8443") is None
    assert judged("box.example", "http://box.example") == "foreign_origin"
    assert judged("box.example", "http://box.example", scheme="http") is None
    assert judged("box.example", "https://box.example.evil.com") == "foreign_origin"
