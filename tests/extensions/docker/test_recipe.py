"""What the daemon is asked for, from a plan; without a daemon."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest, StartFailed
from outlive.core.location import ContainerPlan
from outlive.extensions.docker.api import DockerSettings, check_host, docker_host
from outlive.extensions.docker.mounts import Mount
from outlive.extensions.docker.recipe import (
    ContainerOwner,
    Labels,
    check_plan,
    container_name,
    machine_of,
    owner_of,
    recipe,
    state_label,
)

_PLAN = ContainerPlan(image="debian:12", workspace="/srv/project", principal="p")
_WORKSPACE = Mount(source="/srv/project", target="/srv/project", identity=(1, 2))


def _made(plan: ContainerPlan = _PLAN, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 -- one type each
    arguments: dict[str, Any] = {
        "state": "s",
        "owner": ContainerOwner(1000, 1000),
        "image_id": "sha256:1",
        "mounts": [_WORKSPACE],
        "runner": "/cache/runner",
        "hand_folder": "/state/containers/x/hand",
        "lock": "8:99",
    }
    return recipe(plan, **(arguments | changes))


def test_every_container_is_closed() -> None:
    body = _made()
    config = body["HostConfig"]
    assert config["CapDrop"] == ["ALL"]
    assert config["SecurityOpt"] == ["no-new-privileges:true"]
    assert config["ReadonlyRootfs"] is True
    assert (config["NetworkMode"], body["NetworkDisabled"]) == ("none", True)
    assert config["LogConfig"] == {"Type": "none", "Config": {}}
    assert not config["Privileged"]
    assert not config["Init"]
    assert "Binds" not in config, "a colon in a path would mean something there"
    assert body["Entrypoint"] == ["/run/outlive-runner"]
    assert body["Cmd"] == ["serve", "--handed", "--lock=8:99", "/run/outlive/hand.sock"]


def test_limits_are_the_plans() -> None:
    plan = dataclasses.replace(
        _PLAN, memory_bytes=1 << 30, cpus=1.5, processes=99, runtime="runsc", network="lan"
    )
    body = _made(plan)
    config = body["HostConfig"]
    assert (config["Memory"], config["MemorySwap"], config["NanoCpus"]) == (1 << 30, 1 << 30, 1_500_000_000)
    assert (config["PidsLimit"], config["Runtime"], config["NetworkMode"]) == (99, "runsc", "lan")
    assert "NetworkDisabled" not in body
    assert not {"Memory", "NanoCpus", "PidsLimit", "Runtime"} & _made()["HostConfig"].keys()


def test_whatever_makes_another_container_makes_another_recipe() -> None:
    bodies = [
        _made(),
        _made(image_id="sha256:2"),
        _made(owner=ContainerOwner(1, 1)),
        _made(runner="/other"),
        _made(mounts=[_WORKSPACE, Mount(source="/m", target="/m", identity=(1, 3))]),
        _made(dataclasses.replace(_PLAN, processes=5)),
    ]
    assert len({body["Labels"][Labels.RECIPE] for body in bodies}) == len(bodies)
    assert _made() == _made()


@pytest.mark.parametrize(
    "changes",
    [
        {"network": "host"},
        {"network": "container:other"},
        {"network": "container"},
        {"network": ""},
        {"user": "root"},
        {"user": "0:root"},
        {"user": "99999999999"},
        {"user": "4294967295"},
        {"user": "-1"},
        {"image": ""},
        {"image": "../../containers/x"},
        {"image": "a b"},
        {"image": "a?b"},
    ],
)
def test_what_no_daemon_should_be_asked_for_is_refused(changes: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        check_plan(dataclasses.replace(_PLAN, **changes))  # type: ignore[arg-type] # all of them are strings


@given(st.text())
def test_a_name_of_an_image_cannot_change_what_is_asked(image: str) -> None:
    try:
        check_plan(dataclasses.replace(_PLAN, image=image))
    except InvalidRequest:
        return
    assert not set(image) & set("?#%&\\ \t\r\n")
    assert ".." not in image


@pytest.mark.parametrize(
    "image", ["debian", "debian:12", "ghcr.io/a/b_c:1.0-x", "localhost:5000/a@sha256:" + "0" * 64]
)
def test_names_of_images_are_taken(image: str) -> None:
    check_plan(dataclasses.replace(_PLAN, image=image, user="0:0", network="bridge"))


def test_the_owner_is_the_plans_else_the_images() -> None:
    assert owner_of(dataclasses.replace(_PLAN, user="5"), {"Config": {"User": "node"}}) == ContainerOwner(
        5, 5
    )
    assert owner_of(_PLAN, {"Config": {"User": ""}}) == ContainerOwner(0, 0)
    assert owner_of(_PLAN, {"Config": None}) == ContainerOwner(0, 0)
    assert owner_of(_PLAN, {"Config": {"User": "7:8"}}) == ContainerOwner(7, 8)
    with pytest.raises(StartFailed):
        owner_of(_PLAN, {"Config": {"User": "node"}})


def test_machines_are_named_as_the_runner_is() -> None:
    assert machine_of({"Architecture": "amd64"}) == "x86_64"
    assert machine_of({"Architecture": "arm64"}) == "aarch64"
    with pytest.raises(StartFailed, match="riscv64"):
        machine_of({"Architecture": "riscv64"})


def test_machines_with_the_same_folder_at_one_daemon_are_told_apart() -> None:
    assert state_label("/state", "a\n") == state_label("/state", "a")
    assert len({state_label("/state", "a"), state_label("/state", "b"), state_label("/other", "a")}) == 3
    assert container_name("0123456789abcdef", "session-1") == "outlive-01234567-session-1"


@pytest.mark.parametrize(
    ("environ", "host", "path"),
    [
        ({}, "unix:///var/run/docker.sock", "/var/run/docker.sock"),
        ({"DOCKER_HOST": "unix:///d.sock"}, "unix:///d.sock", "/d.sock"),
        ({"DOCKER_HOST": "unix:///d.sock", "DOCKER_TLS_VERIFY": "1"}, "unix:///d.sock", "/d.sock"),
    ],
)
def test_the_daemon_is_where_the_environment_says(environ: dict[str, str], host: str, path: str) -> None:
    settings = DockerSettings(host=docker_host(environ))
    assert (settings.host, settings.socket_path) == (host, path)
    check_host(settings.host)
