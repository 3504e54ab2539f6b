"""From workspace on there is no way out but those that docs/sandbox.md tells of: more than 200 are tried."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.command import Profile
from outlive.core.errors import StartFailed
from tests.escapes.scene import Scene

_PAGE = Path(__file__).parents[2] / "docs" / "sandbox.md"
_NOBODY = 65534
_USERS = (0, _NOBODY) if os.geteuid() == 0 else (os.geteuid(),)
_WORKSPACE, _OFFLINE, _SEALED = Profile.WORKSPACE, Profile.OFFLINE, Profile.SEALED
_PROFILES = (_WORKSPACE, _OFFLINE, _SEALED)
_FEWEST = 200  # ways that the issue asks for; those that only this machine lacks are not counted
_SHARED = (_WORKSPACE, _OFFLINE)

# What a profile does not bound: which ways that is, in which profiles, and the words of the page that say so.
# Those of the second table are bound where the feature is.
_TOLD = (
    (
        ("tcp", "tcp_ipv6", "udp", "listen", "interfaces"),
        (_WORKSPACE,),
        "`workspace` does not touch the network",
    ),
    (
        ("outside_chmod", "outside_chown", "outside_utime"),
        _SHARED,
        "modes, owners and times of files that belong to",
    ),
    (("names_outside",), _PROFILES, "names and attributes of files can be seen"),
    (("path_socket",), _PROFILES, "a Unix socket with a path can be connected to"),
)
_TOLD_WITHOUT = {
    "processes_hidden": (
        (
            "read_cmdline",
            "read_status",
            "read_stat",
            "read_comm",
            "read_cgroup",
            "read_mountinfo",
            "key_descriptions",
        ),
        "what `/proc` shows to everybody",
    ),
    "no_foreign_signals": (
        (
            *("kill", "kill_0", "kill_cont", "tkill", "tgkill", "sigqueue", "tgsigqueue", "kill_group"),
            *("pidfd_send_signal", "abstract_stream", "abstract_seqpacket", "abstract_datagram"),
        ),
        "without it the feature is missing from the list",
    ),
}


def _expected(profile: Profile, features: tuple[str, ...]) -> set[str]:
    found = {way for ways, profiles, _ in _TOLD if profile in profiles for way in ways}
    if profile is not _SEALED:
        found |= {way for name, (ways, _) in _TOLD_WITHOUT.items() if name not in features for way in ways}
    return found


def _escaped(outcomes: dict[str, str]) -> set[str]:
    return {way for way, outcome in outcomes.items() if outcome == "escaped"}


@pytest.fixture(scope="module", params=_USERS, ids=lambda user: "root" if user == 0 else f"uid {user}")
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A keeper and victims of one user."""
    if request.param != os.geteuid() and not shutil.which("setpriv"):
        pytest.skip("nothing here becomes another user")
    with Scene(user=request.param) as found:
        yield found


def _steps(scene: Scene, profile: Profile) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if obstacle := scene.offers().obstacles[profile]:
        pytest.skip(f"{profile.value} cannot be had here: {obstacle}")
    return scene.steps(profile)


@pytest.mark.thorough
@pytest.mark.promise("S0.3.walls")
@pytest.mark.parametrize("profile", _PROFILES)
def test_there_is_no_way_out_but_those_that_are_told_of(scene: Scene, profile: Profile) -> None:
    steps, features = _steps(scene, profile)
    before = scene.victim()
    outcomes = scene.attack(steps)
    assert {way: said for way, said in outcomes.items() if said.startswith("fault")} == {}
    assert len([said for said in outcomes.values() if not said.startswith("missing")]) >= _FEWEST
    assert _escaped(outcomes) <= _expected(profile, features)
    assert scene.victim() == before  # whatever a call has answered: nothing has become of the victim
    assert scene.dead() == []


@pytest.mark.promise("A.keeper")
@pytest.mark.parametrize("profile", [Profile.OPEN, Profile.GUARDED])
def test_open_and_guarded_keep_what_they_promise(scene: Scene, profile: Profile) -> None:
    """They bound no effects.

    But the keeper serves them nothing, and in `guarded` no program gives more rights.
    """
    steps, _ = _steps(scene, profile)
    before = scene.victim()
    outcomes = scene.attack(steps, only_keeper=True)
    assert {way: said for way, said in outcomes.items() if said.startswith("fault")} == {}
    assert [way for way in outcomes if way.startswith(("shim", "guardian", "supervisor"))]
    assert _escaped(outcomes) == ({"gain_privileges"} if profile is Profile.OPEN else set())
    assert scene.victim() == before
    assert scene.dead() == []
    assert scene.run((), "/bin/true")[0] == 0, "the keeper has its locks still"


def test_every_way_that_is_left_open_stands_in_the_documentation() -> None:
    page = " ".join(_PAGE.read_text().split())
    for words in [words for _, _, words in _TOLD] + [words for _, words in _TOLD_WITHOUT.values()]:
        assert words in page


# Without a step its ways are open: what would be missing if it did nothing.
_MUTATIONS = {
    "seccomp": {
        "prlimit_cpu", "cpu_limit_of_the_victim", "prlimit_high_bits", "setpriority_user", "ioprio_user", "keyctl_read",  # noqa: E501 -- cut nowhere better: a table, or another program's text
        "keyctl_search_user_session", "add_key_user", "request_key_user", "unshare_user", "clone_user", "clone3_user", "call_bpf",  # noqa: E501 -- cut nowhere better: a table, or another program's text
        "call_io_uring_setup", "call_userfaultfd", "call_fsconfig", "type_into_terminal", "type_into_terminal_high_bits",  # noqa: E501 -- cut nowhere better: a table, or another program's text
        "setxattr", "int80", "filter_allows_again", "outside_inode_flags",
    },
    "unshare": {"shm_attach", "shm_attach_private", "shm_attach_by_index", "sem_set", "msg_receive", "queue_remove"},  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "landlock": {"state_read", "home_read", "outside_write", "outside_remove", "kill", "abstract_stream"},
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("left_out", _MUTATIONS)
def test_without_a_step_the_attack_finds_its_ways(left_out: str) -> None:
    """The suite itself: it can see what it looks for.

    With a scene of its own, as the victim does not survive unchanged.
    """
    with Scene(user=_USERS[-1]) as scene:
        steps, _ = _steps(scene, _WORKSPACE)
        dropped = {
            left_out,
            *(("pin", "protect", "close") if left_out == "unshare" else ()),
        }  # these need its namespace
        fewer = [step for step in steps if step.partition(" ")[0] not in dropped]
        if fewer == list(steps):
            pytest.skip(f"nothing is done by {left_out} here")
        found = _escaped(scene.attack(fewer))
    assert found >= _MUTATIONS[left_out] - (_KEYS if left_out == "seccomp" and not _has_keys() else set())


_KEYS = {"keyctl_read", "keyctl_search_user_session", "add_key_user", "request_key_user"}


def _has_keys() -> bool:
    return os.path.exists("/proc/keys")


@pytest.mark.thorough
def test_the_session_keyring_is_an_empty_one() -> None:
    """Also without the filter: what the kernel itself looks for keys in (file systems of the network) has
    none.
    """
    with Scene(user=_USERS[-1]) as scene:
        steps, _ = _steps(scene, _WORKSPACE)
        unfiltered = [step for step in steps if not step.startswith("seccomp")]
        found = scene.attack(unfiltered)
        assert not found["keyctl_search_session"].startswith(("escaped", "fault"))
        if not found["keyctl_capabilities"].startswith("escaped"):
            pytest.skip("the kernel keeps no keys here")
        before = scene.attack([step for step in unfiltered if step != "keyring"])
    if before["keyctl_search_session"] != "escaped":
        pytest.skip("whoever runs this has a session keyring that does not lead to the user's")


@pytest.mark.thorough
def test_more_commands_run_at_the_same_time_than_a_user_may_have_keys() -> None:
    """200 (keyrings(7)): a keyring for each command would be an end of starts."""
    count = 230
    with Scene(user=_USERS[-1]) as scene:
        steps, _ = _steps(scene, _WORKSPACE)
        started = [
            scene.house.start("/bin/sleep", "600", cwd=str(scene.workspace), confinement=steps)
            for _ in range(count)
        ]
        assert len({scene.house.pid(one) for one in started}) == count


@pytest.mark.thorough
def test_in_the_open_nearly_everything_works() -> None:
    """As an ordinary user, to whom this machine denies the rest."""
    with Scene(user=_USERS[-1]) as scene:
        before = scene.victim()
        assert len(_escaped(scene.attack(()))) >= _FEWEST
        assert scene.victim() != before


@pytest.mark.thorough
@pytest.mark.parametrize("profile", [_WORKSPACE])
def test_where_no_namespaces_can_be_made_there_is_no_system_v_ipc(profile: Profile) -> None:
    with Scene(user=_USERS[-1], degrade="namespaces") as scene:
        try:
            steps, features = _steps(scene, profile)
        except StartFailed as error:
            if "no mounts can be made" not in error.message:
                raise
            pytest.skip(error.message)  # outlive itself lies in a folder that a command may write to
        assert "no_ipc" in features
        assert "own_ipc" not in features
        before = scene.victim()
        outcomes = scene.attack(steps)
        tables = {"shm_table", "sem_table", "msg_table"}  # /proc/sysvipc, which tells who has what
        assert _escaped(outcomes) <= _expected(profile, features) | tables
        assert outcomes["shm_attach_private"] == "denied: EPERM"
        assert scene.victim() == before


@pytest.mark.parametrize("missing", ["seccomp", "keyring"])
def test_a_machine_that_cannot_deny_system_calls_refuses(missing: str) -> None:
    with Scene(user=os.geteuid(), degrade=missing) as scene:
        obstacles = scene.offers().obstacles
    for profile in _PROFILES:
        assert {"seccomp": "no system calls can be denied", "keyring": "no session keyring"}[
            missing
        ] in obstacles[profile]
    assert not obstacles[Profile.GUARDED]
