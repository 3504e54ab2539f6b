"""A node on another network, over TLS: two network namespaces and a cable between them that is pulled."""

import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Client
from tests.attacks.certificates import Authority
from tests.extensions.fleet.cables import Cable
from tests.extensions.fleet.joining import invited, join
from tests.extensions.fleet.pairs import PATIENCE_S, a_token, node_state, output_of, wait_until
from tests.support.server import OutliveServer, outlive_command, run_outlive

pytestmark = [pytest.mark.thorough, pytest.mark.root("network namespaces need root")]

_NOTICED_S = (
    50.0  # a machine that vanished without a word is asked every 15 s, and may take as long to answer
)


@pytest.fixture
def far(cable: Cable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OutliveServer]:
    """A server in the other network, over TLS."""
    (tmp_path / "tls").mkdir()
    authority = Authority(tmp_path / "tls")
    certificate, key = authority.issue("far", cable.there)
    words = ["--host", "0.0.0.0", "--tls-cert", str(certificate), "--tls-key", str(key)]
    server = OutliveServer(tmp_path / "far", args=[*words, "--public-name", cable.there])
    token = a_token(server, "near")
    (tmp_path / "tokens").touch(mode=0o600)
    (tmp_path / "tokens").write_text(f"far {token}\n")
    here = outlive_command()
    with monkeypatch.context() as patched:
        patched.setenv(
            "OUTLIVE_TEST_COMMAND", shlex.join(["nsenter", f"--net=/run/netns/{cable.space}", *here])
        )
        server.start()
    yield server
    with monkeypatch.context() as patched, server:  # who stops it is in its network, too
        patched.setenv(
            "OUTLIVE_TEST_COMMAND", shlex.join(["nsenter", f"--net=/run/netns/{cable.space}", *here])
        )


def _near(far: OutliveServer, cable: Cable, folder: Path, *, ca: bool = True) -> OutliveServer:
    words = ["--node", f"far=https://{cable.there}:{far.port}", "--node-tokens", str(folder / "tokens")]
    words += ["--node-ca", str(folder / "tls" / "authority.pem")] if ca else []
    return OutliveServer(folder / f"near{ca}", args=words)


@pytest.mark.promise("S4.12.nodes.once", "S4.12.nodes.away")
def test_a_pulled_cable_costs_nothing(far: OutliveServer, cable: Cable, tmp_path: Path) -> None:
    """Nobody says good-bye: a short pull is not even noticed, a long one is told, and all of it comes in the
    end.
    """
    with _near(far, cable, tmp_path) as near, Client(near.state_dir) as client:
        wait_until(lambda: node_state(near)["state"] == "connected")
        line = "for i in $(seq 1 60); do echo line $i; echo err $i >&2; sleep .1; done; exit 11"
        process = client.start(line, backend="far")
        wait_until(lambda: process.info().cursor.stdout > 0)
        cable.pull()
        second = client.start("echo here")
        assert output_of(second)[0] == b"here\n"
        wait_until(lambda: process.info().is_unknown, patience_s=_NOTICED_S)
        cable.plug()
        info = process.wait(60)
        assert (info.exit_code, info.is_unknown) == (11, False)
        out, err = output_of(process)
        assert out == b"".join(b"line %d\n" % i for i in range(1, 61))
        assert err == b"".join(b"err %d\n" % i for i in range(1, 61))


def test_a_certificate_that_does_not_count_is_said(far: OutliveServer, cable: Cable, tmp_path: Path) -> None:
    """Without the authority nothing is sent, no token either."""
    with _near(far, cable, tmp_path, ca=False) as near:
        wait_until(lambda: "certificate" in str(node_state(near)["reason"]), patience_s=PATIENCE_S)


@pytest.mark.promise("S4.12.nodes.joined", "S4.12.nodes.joined.crash", "S4.12.nodes.silent")
def test_a_machine_that_cannot_be_reached_joins_over_tls(
    cable: Cable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node listens on its own loopback alone: from here nothing of it is reached.

    It is away while the cable is pulled, and comes back.
    """
    (tmp_path / "tls").mkdir()
    authority = Authority(tmp_path / "tls")
    certificate, key = authority.issue("near", cable.here)
    words = ["--host", "0.0.0.0", "--tls-cert", str(certificate), "--tls-key", str(key)]
    near = OutliveServer(tmp_path / "near", args=[*words, "--public-name", cable.here])
    a_token(near, "somebody")  # a server that is reached from elsewhere wants one
    node = OutliveServer(tmp_path / "node")
    with near, monkeypatch.context() as patched:
        inside = ["nsenter", f"--net=/run/netns/{cable.space}", *outlive_command()]
        patched.setenv("OUTLIVE_TEST_COMMAND", shlex.join(inside))
        node.start()
        with node, Client(near.state_dir, start_server=False) as client:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((cable.there, node.port), timeout=5).close()
            url, code = f"wss://{cable.here}:{near.port}", invited(near)
            refused = run_outlive("node", "join", url, "--token-file", "/dev/null", state_dir=node.state_dir)
            assert "there is no code" in refused.stderr
            file = tmp_path / "code"
            file.write_text(code)
            unknown = run_outlive("node", "join", url, "--token-file", str(file), state_dir=node.state_dir)
            assert "certificate" in unknown.stderr  # and the code was not sent: it counts still
            plain = url.replace("wss://", "ws://")
            bare = run_outlive("node", "join", plain, "--token-file", str(file), state_dir=node.state_dir)
            assert "without TLS" in bare.stderr
            join(node, url, code, "--ca", str(authority.path))
            wait_until(lambda: node_state(near)["state"] == "connected")
            process = client.start(
                "for i in $(seq 200); do echo line $i; sleep .1; done; exit 12", backend="far"
            )
            wait_until(lambda: process.info().cursor.stdout > 0)
            cable.pull()
            wait_until(lambda: node_state(near)["state"] == "away")
            assert not process.info().is_reachable
            cable.plug()
            wait_until(lambda: node_state(near)["state"] == "connected", patience_s=_NOTICED_S)
            assert process.wait(60).exit_code == 12
            assert output_of(process)[0] == b"".join(b"line %d\n" % i for i in range(1, 201))
