"""The guard's decision, as a table: Host and Origin are compared by their parsed value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import SLUGS
from outlive.frontends.answers import STATUS
from outlive.frontends.guard import PEER_UID, judge

_PORT = 8003


def _scope(*headers: tuple[str, str], port: int | None = _PORT, uid: int | None = None) -> dict[str, object]:
    return {
        "type": "http",
        "server": ("127.0.0.1", port) if port is not None else ("/run/server.sock", None),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "state": {} if uid is None else {PEER_UID: uid},
    }


def _judge(*headers: tuple[str, str], port: int | None = _PORT, uid: int | None = None) -> str | None:
    refusal = judge(_scope(*headers, port=port, uid=uid), own_uid=1000)
    return refusal.error if refusal is not None else None


@pytest.mark.promise("A.host")
@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8003", "LocalHost:8003", "127.0.0.1", "127.0.0.1:8003", "[::1]", "[::1]:8003"],
)
def test_our_own_names_pass_with_our_port_or_none(host: str) -> None:
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
        "127.0.0.1:8004",
        "localhost:80",
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
    "origin", ["http://localhost:8003", "http://127.0.0.1:8003", "http://[::1]:8003", "HTTP://LOCALHOST:8003"]
)
def test_the_servers_own_origin_passes(origin: str) -> None:
    assert _judge(("Host", "localhost:8003"), ("Origin", origin)) is None


@pytest.mark.promise("A.origin")
@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "http://localhost",
        "http://localhost:3000",
        "https://localhost:8003",
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


def test_an_origin_without_a_port_means_port_80() -> None:
    assert _judge(("Host", "localhost"), ("Origin", "http://localhost"), port=80) is None


def test_the_unix_socket_takes_any_host_and_our_own_uid_only() -> None:
    assert _judge(("Host", "whatever"), port=None, uid=1000) is None
    assert _judge(port=None, uid=1000) is None
    assert _judge(("Host", "localhost"), port=None, uid=1001) == "foreign_user"
    assert _judge(("Host", "localhost"), port=None, uid=0) == "foreign_user"
    assert _judge(("Host", "localhost"), port=None, uid=None) == "foreign_user"


@pytest.mark.promise("A.origin")
def test_no_web_page_comes_through_the_unix_socket() -> None:
    assert _judge(("Origin", "http://localhost"), port=None, uid=1000) == "foreign_origin"


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


def _with_key(*headers: tuple[str, str], method: str = "GET", port: int | None = _PORT) -> str | None:
    scope = {**_scope(("Host", "localhost"), *headers, port=port, uid=1000), "method": method, "path": "/mcp"}
    refusal = judge(scope, own_uid=1000, api_key="k\u00e9y", page_paths=frozenset({"/mcp"}))
    return None if refusal is None else refusal.error


@pytest.mark.promise("S4.9.key")
def test_the_key_has_three_forms_and_blanks_around_it_do_not_count() -> None:
    key = "k\u00e9y".encode().decode("latin-1")
    for name, value in (
        ("Authorization", f"Bearer {key}"),
        ("Authorization", f"bearer  {key} "),
        ("Authorization", key),
        ("X-API-Key", f"\t{key}"),
    ):
        assert _with_key((name, value)) is None
    for name, value in (
        ("Authorization", f"Basic {key}"),
        ("Authorization", "Bearer"),
        ("Authorization", ""),
        ("X-API-Key", key[:-1]),
        ("X-API-Key", f"{key}, {key}"),
        ("Cookie", key),
    ):
        assert _with_key((name, value)) == "key_missing"
    assert _with_key() == "key_missing"
    assert _with_key(port=None) is None


@pytest.mark.promise("S4.9.key", "S4.10")
def test_a_preflight_cannot_show_a_key_and_foreign_origins_are_refused_first() -> None:
    asks = ("Access-Control-Request-Method", "POST")
    assert _with_key(("Origin", "http://localhost:5173"), asks, method="OPTIONS") is None
    assert _with_key(("Origin", "http://localhost:5173"), asks, method="POST") == "key_missing"
    assert _with_key(("Origin", "http://localhost:5173"), method="OPTIONS") == "key_missing"
    assert _with_key(("Origin", "http://localhost.evil.com"), asks, method="OPTIONS") == "foreign_origin"


@given(value=st.text(st.characters(max_codepoint=255), max_size=20))
def test_no_text_passes_for_the_key(value: str) -> None:
    assert _with_key(("Authorization", value), ("X-API-Key", value)) == "key_missing"
