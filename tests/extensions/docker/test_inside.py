"""What a command inside a container can see, do and take."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from outlive.core.errors import CommandRefused
from outlive.extensions.docker import api
from tests.extensions.docker.site import Site

pytestmark = pytest.mark.docker


async def test_the_root_is_read_only_and_temporary_folders_are_not(site: Site) -> None:
    await site.ready()
    code, said = await site.inside("sh", "-c", "touch /bin/x; touch /etc/x; touch /x")
    assert code != 0
    assert said.count("Read-only file system") == 3
    code, said = await site.inside(
        "sh",
        "-c",
        (
            "touch /tmp/x /var/tmp/x /run/x $HOME/x && cd && pwd && cp /bin/busybox /tmp/ && /tmp/busybox "
            "echo runs"
        ),
    )
    assert (code, said) == (0, "/tmp\nruns")
    code, said = await site.inside("sh", "-c", "echo x > /run/outlive-runner")
    assert code != 0


async def test_there_are_no_capabilities_and_no_new_privileges(site: Site) -> None:
    await site.ready()
    _, said = await site.inside("grep", "-E", "^(Cap|NoNewPrivs|Seccomp:)", "/proc/self/status")
    found = dict(line.split(":\t") for line in said.splitlines())
    assert {found.pop(f"Cap{which}") for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert found == {"NoNewPrivs": "1", "Seccomp": "2"}
    code, _ = await site.inside("mount", "-t", "tmpfs", "none", "/tmp")
    assert code != 0


async def test_commands_are_the_plans_user(site: Site) -> None:
    os.chown(site.workspace, 1234, 2345)
    name = await site.ready(site.plan(user="1234:2345"))
    _, said = await site.inside("sh", "-c", "id -u; id -g; touch file && echo written")
    assert said.splitlines() == ["1234", "2345", "written"]
    written = (site.workspace / "file").stat()
    assert (written.st_uid, written.st_gid) == (1234, 2345)
    hand = (site.state / "containers" / name / "hand").stat()
    assert (stat.S_IMODE(hand.st_mode), hand.st_uid) == (0o755, os.geteuid())
    assert (site.state / "containers" / name).stat().st_mode & 0o077 == 0


async def test_there_is_no_network(site: Site) -> None:
    await site.ready()
    _, said = await site.inside(
        "sh", "-c", "ls /sys/class/net; cat /proc/net/route; wget -T 2 http://127.0.0.1:8003 2>&1"
    )
    assert "eth0" not in said
    assert len([line for line in said.splitlines() if line.startswith("eth")]) == 0
    code, said = await site.inside("ping", "-c", "1", "-W", "1", "192.0.2.1")
    assert code != 0
    code, said = await site.inside(
        "sh", "-c", "echo hello | nc -l -p 7777 & sleep 0.2; nc 127.0.0.1 7777 </dev/null"
    )
    assert said == "hello", "commands may talk to each other"


async def test_the_number_of_processes_is_bounded(site: Site) -> None:
    await site.ready(site.plan(processes=16))
    code, said = await site.inside("sh", "-c", "for i in $(seq 40); do sleep 30 & done; echo all")
    assert code != 0
    assert "can't fork" in said
    assert (await site.only())["State"]["Running"]


async def test_memory_is_bounded_and_the_container_lives_on(site: Site) -> None:
    name = await site.ready(site.plan(memory_bytes=64 << 20))
    before = site.init(name)
    code, _ = await site.inside(
        "sh",
        "-c",
        (
            "tail -c 200000000 /dev/zero | tail -c 199999999 > /dev/null; dd if=/dev/zero of=/tmp/x bs=1M "
            "count=200"
        ),
    )
    assert code != 0
    await site.containers().ready(name)
    assert site.init(name) == before


async def test_processors_are_bounded(site: Site) -> None:
    await site.ready(site.plan(cpus=0.5))
    _, said = await site.inside(
        "sh",
        "-c",
        (
            "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us "
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us 2>/dev/null"
        ),
    )
    quota, period = said.split()
    assert int(quota) / int(period) == 0.5


async def test_no_daemon_can_be_reached(site: Site) -> None:
    await site.ready()
    _, said = await site.inside("find", "/", "-xdev", "-name", "*.sock", "-not", "-path", "/proc/*")
    assert said == ""
    _, said = await site.inside("find", "/run", "/var", "/tmp", "-type", "s")
    assert said == "", "the runner's socket has no name inside"


async def test_of_the_state_folder_only_the_runners_folder_is_seen(site: Site) -> None:
    (site.state / "secret").write_text("x")
    await site.ready()
    _, said = await site.inside("cat", "/proc/self/mountinfo")
    seen = [line.split()[3] for line in said.splitlines() if str(site.state) in line.split()[3]]
    assert [Path(path).name for path in seen] == ["hand"]
    code, _ = await site.inside("ls", str(site.state))
    assert code != 0


async def test_the_workspace_is_seen_under_its_own_name_and_mounts_as_the_plan_says(
    site: Site, tmp_path: Path
) -> None:
    for name in ("kept", "shared"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    mounts = (
        f"{tmp_path}/kept:/data/kept:ro",
        f"{tmp_path}/shared:/data/shared",
        f"{tmp_path}/kept/file:/one:ro",
    )
    await site.ready(site.plan(mounts=mounts))
    _, said = await site.inside(
        "sh",
        "-c",
        (
            "pwd; cat /data/kept/file /data/shared/file /one; touch here /data/shared/new; echo x >> "
            "/data/kept/file"
        ),
    )
    assert f"{site.workspace}\n" in said  # what the shell says of the last word may come between
    assert "keptsharedkept" in said
    assert "Read-only file system" in said
    assert (site.workspace / "here").exists()
    assert (tmp_path / "shared" / "new").exists()
    assert (tmp_path / "kept" / "file").read_text() == "kept"


async def test_a_workspace_that_is_a_link_is_seen_under_the_links_name(site: Site, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(site.workspace)
    await site.ready(site.plan(workspace=str(link)))
    _, said = await site.inside("sh", "-c", "pwd; touch via-link")
    assert said == str(link)
    assert (site.workspace / "via-link").exists()


async def test_a_mount_may_stand_in_for_a_temporary_folder(site: Site, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    await site.ready(site.plan(mounts=(f"{tmp_path}/t:/tmp",)))
    await site.inside("touch", "/tmp/there")
    assert (tmp_path / "t" / "there").exists()


@pytest.mark.parametrize("how", ["link", "dots", "itself", "above", "below", "daemon"])
async def test_a_plan_that_reaches_for_what_is_ours_is_refused(site: Site, tmp_path: Path, how: str) -> None:
    (site.state / "processes").mkdir()
    link = tmp_path / "link"
    link.symlink_to(site.state / "processes")
    endpoint = site.settings.socket_path
    (tmp_path / "daemon").symlink_to(endpoint)
    source = {
        "link": str(link),
        "dots": f"{site.workspace}/../state",
        "itself": str(site.state),
        "above": str(site.state.parent),
        "below": str(site.state / "processes"),
        "daemon": str(tmp_path / "daemon"),
    }[how]
    made = site.containers()
    name = await made.remember(site.plan(mounts=(f"{source}:/mnt:ro",)))
    with pytest.raises(CommandRefused) as caught:
        await made.ready(name)
    assert caught.value.code == "mount_refused"
    assert await site.all() == []


async def test_a_folder_that_is_replaced_while_it_is_mounted_ends_the_container(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = api.DockerApi.create

    async def replace_first(self: api.DockerApi, name: str, recipe: dict[str, object]) -> str | None:
        await asyncio.to_thread(os.rename, site.workspace, f"{site.workspace}-old")
        await asyncio.to_thread(os.symlink, site.state, site.workspace)
        return await create(self, name, recipe)

    monkeypatch.setattr(api.DockerApi, "create", replace_first)
    with pytest.raises(CommandRefused) as caught:
        await site.ready()
    assert caught.value.code == "mount_refused"
    assert await site.all() == []


async def test_what_the_daemon_was_asked_for_is_what_it_made(site: Site) -> None:
    await site.ready()
    config = (await site.only())["HostConfig"]
    assert config["LogConfig"]["Type"] == "none"
    assert config["RestartPolicy"]["Name"] in {"no", ""}
    assert (config["Init"], config["Privileged"], config["CapDrop"]) == (False, False, ["ALL"])
    assert json.dumps(config["SecurityOpt"]) == '["no-new-privileges:true"]'
    assert config["PidMode"] == ""
