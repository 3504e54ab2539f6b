"""Which profile a command gets, who may choose a weaker one, and what a machine that lacks something
answers.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlive.config import Settings
from outlive.config.resolution import is_tighter
from outlive.core.command import Command, Limits, Profile, parse_profile
from outlive.core.errors import CommandRefused, InvalidRequest, StartFailed
from outlive.core.events import Event, StartRejected
from outlive.core.process import Owner
from outlive.engine import Engine
from outlive.keeper.sandbox.capabilities import ask_offers
from outlive.kernel.processes import children
from outlive.operations.repetition import Rerun
from outlive.server.shown_output import start_again
from tests.engine.engines import ME, an_engine, output_of, run
from tests.keeper.client import until
from tests.keeper.house import House, shim_program
from tests.support.processes import end

_ADMIN = replace(ME, is_admin=True)
_GUARDED = Settings(profile="guarded")


def test_profiles_have_an_order_and_names() -> None:
    assert [profile.value for profile in sorted(Profile, key=lambda one: one.strength)] == [
        "open",
        "guarded",
        "workspace",
        "offline",
        "sealed",
    ]
    with pytest.raises(InvalidRequest, match="'wide'"):
        parse_profile("wide")


@pytest.mark.parametrize("profile", list(Profile))
def test_a_projects_file_may_only_choose_a_stronger_profile(profile: Profile) -> None:
    for other in Profile:
        assert is_tighter("stronger", other, than=profile) == (other.strength >= profile.strength)


def test_a_projects_file_may_set_a_bound_where_there_is_none_but_not_take_it_away() -> None:
    assert is_tighter("lower", 5, than=None)
    assert not is_tighter("lower", None, than=5)
    assert is_tighter("lower", None, than=None)


def test_limits_go_downwards_only() -> None:
    most = Limits(cpu_s=10, memory_bytes=1000)
    assert Limits(cpu_s=5, files=3).within(most) == Limits(cpu_s=5, memory_bytes=1000, files=3)
    with pytest.raises(InvalidRequest, match="memory may be 1000"):
        Limits(memory_bytes=1001).within(most)
    assert not Limits()
    assert Limits(files=1)


async def test_the_default_profile_is_everybodys_and_only_an_administrator_goes_below(
    shared_house: House,
) -> None:
    async with an_engine(shared_house.state_dir, options=_GUARDED) as engine:
        assert (await run(engine, "true")).record.sandbox.profile is Profile.GUARDED
        with pytest.raises(CommandRefused) as refused:
            await engine.starts.start(Command(line="true", profile="open"), owner=ME)
        assert refused.value.code == "profile_too_weak"
        weaker = await run(engine, "true", owner=_ADMIN, profile="open")
        assert weaker.record.sandbox.profile is Profile.OPEN


async def test_who_lives_in_a_process_starts_nothing_weaker_and_nowhere_else(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    parent = await run(engine, "true", profile="workspace", cwd=str(tmp_path / "here"))
    inside = Owner(principal="me", inside=parent.process_id, is_admin=True)
    started = await run(engine, "true", owner=inside, cwd=str(tmp_path / "here"))
    assert started.record.sandbox.profile is Profile.WORKSPACE
    for wanted in (
        Command(line="true", profile="guarded", cwd=str(tmp_path / "here")),
        Command(line="true", cwd=str(tmp_path / "there")),
    ):
        with pytest.raises(CommandRefused) as refused:
            await engine.starts.start(wanted, owner=inside)
        assert refused.value.code == "profile_too_weak"


async def test_who_lives_in_a_process_repeats_nothing_weaker_and_that_is_recorded(engine: Engine) -> None:
    parent, weaker = await run(engine, "true", profile="guarded"), await run(engine, "true")
    refusals: list[Event] = []
    engine.events.subscribe(refusals.append, kinds=[StartRejected])
    with pytest.raises(CommandRefused):
        await start_again(engine, weaker, Rerun(), owner=replace(ME, inside=parent.process_id))
    assert [(one.code, one.command) for one in refusals if isinstance(one, StartRejected)] == [
        ("profile_too_weak", "true")
    ]


async def test_a_guarded_command_finds_listed_names_and_what_it_was_given(shared_house: House) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "LC_TIME": "C",
        "AWS_SECRET": "x",
        "HOME": "/root",
        "EDITOR": "vi",
    }
    async with an_engine(shared_house.state_dir, environment=environment) as engine:
        process = await run(engine, "env", profile="guarded", env={"MINE": "1"}, env_secrets={"KEY": "2"})
        names = {line.partition(b"=")[0] for line in (await output_of(process))[0].splitlines()}
    assert {b"PATH", b"LC_TIME", b"HOME", b"MINE", b"KEY"} <= names
    assert not names & {b"AWS_SECRET", b"EDITOR"}


async def test_a_folder_that_holds_the_state_folder_is_no_workspace(
    engine: Engine, shared_house: House
) -> None:
    for folder in ("/", str(shared_house.state_dir), str(shared_house.state_dir / "processes")):
        with pytest.raises(StartFailed, match="state folder") as refused:
            await engine.starts.start(Command(line="true", profile="workspace", cwd=folder), owner=ME)
        assert refused.value.code == "sandbox_unavailable"


async def test_long_lines_are_read_from_their_script_within_a_workspace(
    engine: Engine, tmp_path: Path
) -> None:
    line = f"echo {'x' * 150_000} | wc -c"
    process = await run(engine, line, profile="workspace", cwd=str(tmp_path))
    assert await output_of(process) == (b"150001\n", b"")
    sealed = await run(engine, line, profile="sealed", cwd=str(tmp_path))
    assert await output_of(sealed) == (b"150001\n", b"")


_LESSER = {"OUTLIVE_DEGRADE": "landlock,namespaces"}


@pytest.fixture
def lesser_house(tmp_path: Path) -> Iterator[House]:
    """A keeper on a machine without Landlock and namespaces, as far as it can see."""
    with House(tmp_path / "lesser", env=_LESSER) as house:
        yield house


@pytest.fixture
async def lesser(lesser_house: House) -> AsyncIterator[Engine]:
    """An engine on that keeper."""
    async with an_engine(lesser_house.state_dir) as engine:
        yield engine


@pytest.mark.promise("S0.3.profile")
@pytest.mark.parametrize("profile", [Profile.WORKSPACE, Profile.OFFLINE, Profile.SEALED])
async def test_a_machine_that_lacks_something_refuses_and_says_what(
    lesser: Engine, tmp_path: Path, profile: Profile
) -> None:
    with pytest.raises(StartFailed) as refused:
        await lesser.starts.start(
            Command(line=f"touch {tmp_path}/ran", profile=profile.value, cwd=str(tmp_path)), owner=ME
        )
    assert refused.value.code == "sandbox_unavailable"
    assert ("namespaces" if profile is Profile.SEALED else "Landlock") in refused.value.message
    assert "doctor" in refused.value.hint
    assert not (tmp_path / "ran").exists()


async def test_what_counts_is_what_the_keeper_can_do(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose unit forbids it namespaces (decision 45) finds what its keeper finds, not what it would
    itself.
    """
    if obstacle := (await asyncio.to_thread(ask_offers, "/", program=shim_program())).obstacles[
        Profile.OFFLINE
    ]:
        pytest.skip(obstacle)
    monkeypatch.setenv("OUTLIVE_DEGRADE", "landlock,namespaces")
    assert (await asyncio.to_thread(ask_offers, "/", program=shim_program())).obstacles[Profile.OFFLINE]
    process = await run(engine, "echo here", profile="offline", cwd=str(tmp_path))
    assert await output_of(process) == (b"here\n", b"")


async def test_an_answer_that_is_none_offers_nothing(own_house: House) -> None:
    """`offers` died: the keeper says what it has printed, and that counts as nothing but `open`."""
    async with an_engine(own_house.state_dir) as engine:
        supervisor = own_house.supervisor()
        told = asyncio.gather(*(engine.sandboxes.offers() for _ in range(3)))
        await asyncio.to_thread(_kill_offers, own_house, supervisor)
        for offers in await told:
            assert offers.obstacles[Profile.OPEN] == ""
            assert "trying it out failed" in offers.obstacles[Profile.GUARDED]
        process = await run(engine, "echo still here")
        assert await output_of(process) == (b"still here\n", b"")


async def test_what_is_offered_is_asked_again_when_the_keeper_dies_over_it(own_house: House) -> None:
    async with an_engine(own_house.state_dir) as engine:
        told = asyncio.ensure_future(engine.sandboxes.offers())
        await asyncio.to_thread(lambda: own_house.kill(own_house.supervisor()))
        assert (await told).obstacles[Profile.GUARDED] == ""


def _kill_offers(house: House, supervisor: int) -> None:
    mark = b"\0offers\0" + os.fsencode(house.state_dir)
    # It lives for a moment only: among all processes of a busy machine it would be looked for too slowly.
    found = until(
        lambda: [pid for pid in children(supervisor) if mark in _command_line(pid)],
        "the process that tries things out",
    )
    for pid in found:
        end(pid)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_what_was_tried_out_is_told_also_when_trying_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlive.keeper.sandbox.capabilities.keeper_argv", lambda *_words: ["/bin/false"])
    offers = ask_offers("/", program=shim_program())
    assert offers.obstacles[Profile.OPEN] == ""
    assert all(offers.obstacles[profile] for profile in Profile if profile is not Profile.OPEN)


async def test_a_caller_opens_nothing_by_its_path_and_runs_where_the_operator_has_said(
    shared_house: House, tmp_path: Path
) -> None:
    home, there = tmp_path / "home", tmp_path / "there"
    for folder in (home, there):
        folder.mkdir()
    (home / "key").write_text("private")
    settings = Settings(sandbox_folders=(str(there),))
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    async with an_engine(shared_house.state_dir, environment=environment, options=settings) as engine:
        line = f"/bin/cat {home}/key"
        wanted = {"PATH": f"{home}:/usr/bin:/bin", "HOME": "/nonexistent"}
        process = await run(engine, line, profile="workspace", cwd=str(there), env=wanted)
        assert process.record.exit_code == 1
        (there / "link").symlink_to(home)
        for folder in (home, tmp_path, there / "link"):
            with pytest.raises(StartFailed, match="operator") as refused:
                await engine.starts.start(Command(line=line, profile="workspace", cwd=str(folder)), owner=ME)
            assert refused.value.code == "sandbox_unavailable"


async def test_nothing_is_opened_that_holds_the_state_folder(shared_house: House, tmp_path: Path) -> None:
    settings = Settings(sandbox_write=(str(shared_house.state_dir.parent),))
    async with an_engine(shared_house.state_dir, options=settings) as engine:
        with pytest.raises(StartFailed, match="state folder lies there"):
            await engine.starts.start(Command(line="true", profile="workspace", cwd=str(tmp_path)), owner=ME)


async def test_who_lives_in_nobody_knows_which_process_gets_the_closest_bounds(
    engine: Engine, tmp_path: Path
) -> None:
    living = await engine.starts.start(
        Command(line="sleep 60", profile="workspace", cwd=str(tmp_path)), owner=ME
    )
    with pytest.raises(CommandRefused) as refused:
        await engine.starts.start(
            Command(line="true", profile="open"), owner=Owner(principal="me", inside="", is_admin=True)
        )
    assert refused.value.code == "profile_too_weak"
    await engine.controls.cancel(living, grace_s=0)
    await engine.queries.wait(living)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every folder")
async def test_a_home_may_lie_below_a_folder_that_may_be_passed_and_not_listed(
    shared_house: House, tmp_path: Path
) -> None:
    """As /home of a machine with many users (mode 711); what else is in there is not opened."""
    passed = tmp_path / "passed"
    (passed / "home").mkdir(parents=True)
    (passed / "key").write_text("canary\n")
    (tmp_path / "work").mkdir()
    environment = {**os.environ, "HOME": str(passed / "home")}
    passed.chmod(0o311)
    try:
        async with an_engine(shared_house.state_dir, environment=environment) as engine:
            if obstacle := (await engine.sandboxes.offers()).obstacles[Profile.WORKSPACE]:
                pytest.skip(obstacle)
            line = f"cat {passed}/key; echo done"
            process = await run(engine, line, profile="workspace", cwd=str(tmp_path / "work"))
            assert (await output_of(process))[0] == b"done\n"
    finally:
        passed.chmod(0o700)


async def test_a_workspace_in_a_home_opens_that_home_to_nobody_else(
    shared_house: House, tmp_path: Path
) -> None:
    """What was looked up for one command is not believed for another one, to which more is hidden."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / "key").write_text("canary\n")
    environment = {**os.environ, "HOME": str(home)}
    async with an_engine(shared_house.state_dir, environment=environment) as engine:
        if obstacle := (await engine.sandboxes.offers()).obstacles[Profile.WORKSPACE]:
            pytest.skip(obstacle)
        line = f"cat {home}/key"
        inside = await run(engine, line, profile="workspace", cwd=str(home))
        assert (await output_of(inside))[0] == b"canary\n"
        outside = await run(engine, line, profile="workspace", cwd=str(elsewhere))
        assert (await output_of(outside))[0] == b""
        assert outside.record.exit_code == 1
