"""TLS on the TCP ports: who may call over it, and what is refused before anything listens."""

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Client, Output
from outlive.core.errors import AccessDenied
from outlive.server.http.tls import certificate_names
from tests.attacks.attacking import create_token
from tests.attacks.certificates import Authority
from tests.support.server import OutliveServer, run_outlive

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """A server on all addresses, over TLS, that asks callers for a certificate, too."""
    certificate, key = authority.issue("server", "localhost", "127.0.0.1", "box.example", "*.team.example")
    folder = tmp_path_factory.mktemp("t")
    words = ["--host", "0.0.0.0", "--tls-cert", str(certificate), "--tls-key", str(key)]
    words += ["--tls-client-ca", str(authority.path), "--public-name", "other.example"]
    server = OutliveServer(folder / "state", args=words)
    create_token(server, name="first")
    with server:
        yield server


def _context(authority: Authority, *, shows: bool = True) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.path))
    if shows:
        context.load_cert_chain(*authority.issue("client"))
    return context


def _status(server: OutliveServer, context: ssl.SSLContext, **headers: str) -> int:
    port = server.ready["ports"]["rest"]
    connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=context)
    try:
        connection.request("GET", "/v1/processes", headers={"Connection": "close", **headers})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.promise("A.tls", "A.host", "A.origin")
def test_over_tls_certificate_and_token_are_both_needed_and_its_names_are_ours(
    secured: OutliveServer, authority: Authority
) -> None:
    context, token = _context(authority), create_token(secured, "read")
    own = {"Authorization": f"Bearer {token}"}
    assert _status(secured, context, **own) == 200
    assert _status(secured, context, Via="1.1 proxy") == 401
    for host in ("box.example", "a.team.example", "other.example:443"):
        assert _status(secured, context, Host=host, **own) == 200
    for host in ("evil.example", "a.b.team.example", "localhost.evil.com"):
        assert _status(secured, context, Host=host, **own) == 421
    assert _status(secured, context, Host="box.example", Origin="https://box.example", **own) == 200
    assert _status(secured, context, Host="box.example", Origin="http://box.example", **own) == 403
    with pytest.raises((ssl.SSLError, ConnectionError)):  # in the handshake, or behind it (TLS 1.3)
        _status(secured, _context(authority, shows=False), **own)


@pytest.mark.promise("A.tls")
def test_plain_http_is_not_spoken_on_a_port_with_tls(secured: OutliveServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", secured.ready["ports"]["rest"], timeout=20)
    connection.request("GET", "/v1/processes")
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.getresponse()
    connection.close()


@pytest.mark.promise("A.tls")
def test_the_client_checks_the_certificate_and_shows_its_token(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("plain", "localhost")
    words = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    with OutliveServer(tmp_path / "state", args=words) as server:
        token = create_token(server)
        url = f"wss://localhost:{server.port}/ws/mcp"
        with Client(url=url, token=token, ca_file=authority.path) as client:
            process = client.start("echo over tls")
            (piece,) = process.follow()
            assert isinstance(piece, Output)
            assert piece.data == b"over tls\n"
        with Client(url=url, token=token) as client, pytest.raises(AccessDenied, match="certificate"):
            client.list()
        other = url.replace("localhost", "127.0.0.1")
        with Client(url=other, token=token, ca_file=authority.path) as client, pytest.raises(AccessDenied):
            client.list()


@pytest.mark.promise("A.reach", "A.loopback")
def test_beyond_loopback_nothing_listens_without_tls_and_something_to_show(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, key = map(str, authority.issue("reach", "localhost"))
    state = tmp_path / "state"
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        _refused(state, "--host", host, says="needs TLS")
    tls = ("--tls-cert", certificate, "--tls-key", key)
    _refused(state, "--host", "0.0.0.0", *tls, says="outlive token create")
    assert run_outlive("token", "create", "--expires", "1ms", state_dir=state).returncode == 0
    _refused(state, "--host", "0.0.0.0", *tls, says="outlive token create")


@pytest.mark.promise("A.tls")
def test_what_is_wrong_with_certificate_or_key_is_told_in_a_sentence(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, key = map(str, authority.issue("one", "localhost"))
    _, other = map(str, authority.issue("two", "localhost"))
    state, junk, missing = tmp_path / "state", tmp_path / "junk.pem", str(tmp_path / "missing.pem")
    junk.write_text("nothing")
    for words, says in (
        (("--tls-cert", certificate), "belong together"),
        (("--tls-key", key), "belong together"),
        (("--tls-client-ca", certificate), "--tls-cert and --tls-key, too"),
        (("--tls-cert", missing, "--tls-key", key), "cannot be read"),
        (("--tls-cert", certificate, "--tls-key", missing), "cannot be read"),
        (("--tls-cert", certificate, "--tls-key", other), "does not belong to the certificate"),
        (("--tls-cert", str(junk), "--tls-key", key), "PEM"),
        (("--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", str(junk)), "PEM"),
    ):
        _refused(state, *words, says=says)


def _refused(state: Path, *words: str, says: str) -> None:
    done = run_outlive("serve", *words, state_dir=state)
    assert done.returncode == 1, words
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_the_names_of_a_certificate_are_read_as_a_host_shows_them(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, _ = authority.issue("named", "Box.Example", "*.team.example", "192.0.2.1", "fd00::1")
    assert certificate_names(str(certificate)) == {"box.example", "*.team.example", "192.0.2.1", "[fd00::1]"}
    assert certificate_names(str(tmp_path / "missing")) == set()
