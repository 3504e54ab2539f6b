"""A node on another network, over TLS: two network namespaces and a cable between them that is pulled."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Client
from tests.attacks.certificates import Authority
from tests.remote.pairs import PATIENCE_S, a_token, node_state, output_of, wait_until
from tests.support.server import OutliveServer, outlive_command

pytestmark = pytest.mark.thorough

_NOTICED_S = (
    50.0  # a machine that vanished without a word is asked every 15 s, and may take as long to answer
)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)


class Cable:
    """Two ends: `here`, and `there` in a namespace of its own."""

    def __init__(self) -> None:
        tag = f"{os.getpid() % 10_000}"
        self.space, self._near, self._far = f"outlive{tag}", f"ol{tag}n", f"ol{tag}f"
        net = f"10.213.{os.getpid() % 250}"
        self.here, self.there = f"{net}.1", f"{net}.2"

    def lay(self) -> None:
        _ip("netns", "add", self.space)
        _ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.space)
        _ip("addr", "add", f"{self.here}/24", "dev", self._near)
        _ip("link", "set", self._near, "up")
        _ip("-n", self.space, "addr", "add", f"{self.there}/24", "dev", self._far)
        _ip("-n", self.space, "link", "set", self._far, "up")
        _ip("-n", self.space, "link", "set", "lo", "up")

    def pull(self) -> None:
        _ip("link", "set", self._near, "down")

    def plug(self) -> None:
        _ip("link", "set", self._near, "up")

    def remove(self) -> None:
        subprocess.run(["ip", "link", "del", self._near], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self.space], capture_output=True, check=False)


@pytest.fixture
def cable() -> Iterator[Cable]:
    """A cable between two networks of the test's own."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    reason = None if shutil.which("ip") else "there is no ip(8)"
    laid = Cable()
    if reason is None:
        try:
            laid.lay()
        except subprocess.CalledProcessError as error:
            laid.remove()
            reason = f"no network namespace here: {error.stderr.decode().strip()}"
    if reason is not None:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), reason
        pytest.skip(reason)
    yield laid
    laid.remove()


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
        patched.setenv("OUTLIVE_TEST_COMMAND", shlex.join(["ip", "netns", "exec", cable.space, *here]))
        server.start()
    with server:
        yield server


def _near(far: OutliveServer, cable: Cable, folder: Path, *, ca: bool = True) -> OutliveServer:
    words = ["--node", f"far=https://{cable.there}:{far.port}", "--node-tokens", str(folder / "tokens")]
    words += ["--node-ca", str(folder / "tls" / "authority.pem")] if ca else []
    return OutliveServer(folder / f"near{ca}", args=words)


@pytest.mark.promise("S4.12.nodes.once", "S4.12.nodes.away")
def test_a_pulled_cable_costs_nothing(far: OutliveServer, cable: Cable, tmp_path: Path) -> None:
    """Nobody says good-bye: a short pull is not even noticed, a long one is told, and all of it comes in the end."""
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
