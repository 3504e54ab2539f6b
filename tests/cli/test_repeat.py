"""`outlive restart` and `outlive rerun`, from outside: the same command, and nothing of it missing in
silence.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.client import Client, Process
from outlive.core.spec import CALLER_ENVIRONMENT, REPEATED, Spec
from outlive.operations.repetition import REPEATS, RepeatedProcess, repetition_of
from tests.cli.terminals import on_a_terminal
from tests.support.processes import Gate
from tests.support.server import OutliveServer, run_outlive

_SECRET = "hunter2"


def _again(served: OutliveServer, client: Client, *words: str, folder: Path | None = None) -> Process:
    done = run_outlive(*words, state_dir=served.state_dir, cwd=folder, env={"API_KEY": _SECRET})
    assert done.returncode == 0, done.stderr
    return client.get(done.stdout.strip())


def _output(process: Process) -> bytes:
    process.wait(20)
    return b"".join(item.data for item in process.tail().items if hasattr(item, "data"))


@pytest.mark.thorough
@pytest.mark.promise("C.rerun")
def test_a_command_runs_again_as_it_did(served: OutliveServer, client: Client, tmp_path: Path) -> None:
    """Folder, environment, labels, bounds, name, and both forms of a command.

    The new one says which it repeats.
    """
    said = 'echo "$PWD $COLOUR ${SHELL+shell}"; ulimit -n; umask; exit 3'
    for name, command in (("line", said), ("words", ["bash", "-c", said])):
        first = client.start(
            command,
            name=name,
            cwd=tmp_path,
            env={"COLOUR": "red"},
            tags={"a": "b"},
            group="g",
            limits={"files": 77},
            umask=0o27,
            timeout_s=50,
            grace_s=3,
        )
        assert first.wait(20).exit_code == 3
        second = _again(served, client, "rerun", first.process_id)
        assert _output(second) == _output(first) != b""
        info, before = second.info(), first.info()
        assert info.process_id != before.process_id
        assert info.tags == {"a": "b", REPEATS: before.process_id}
        for member in (
            "name",
            "group",
            "cwd",
            "command",
            "timeout_s",
            "grace_s",
            "exit_code",
            "shell",
            "profile",
        ):
            assert getattr(info, member) == getattr(before, member), member
        third = _again(served, client, "rerun", second.process_id)
        assert (_output(third), third.info().tags[REPEATS]) == (_output(first), second.process_id)


@pytest.mark.promise("C.rerun")
def test_a_script_and_a_line_of_any_length_run_again(served: OutliveServer, client: Client) -> None:
    long = f"echo {'x' * 200_000} | wc -c; echo $0"
    script = client.start(["/bin/bash", "-e"], script="echo from a script\n")
    for first in (client.start(long), script):
        assert _output(first)
        second = _again(served, client, "rerun", first.process_id)
        assert _output(second) == _output(first)


@pytest.mark.thorough
@pytest.mark.promise("C.rerun")
def test_restart_ends_what_lives_and_rerun_leaves_it(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    named, other = client.start(gate.wait, name="web", grace_s=2), client.start(gate.wait)
    refused = run_outlive("rerun", named.process_id, state_dir=served.state_dir)
    assert refused.returncode == 1
    assert "outlive restart web" in refused.stderr
    beside = _again(served, client, "rerun", other.process_id)
    assert other.info().ended_at is None
    for first in (named, other):
        second = _again(served, client, "restart", first.process_id)
        assert first.info().ended_at is not None
        assert second.info().ended_at is None
        assert second.info().name == first.info().name
        second.cancel(0)
    beside.cancel(0)


@pytest.mark.promise("C.rerun")
def test_a_secret_is_named_or_given_again_and_never_missing(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    first = client.start(f"echo ${{#API_KEY}}; {gate.wait}", name="secret", env_secrets={"API_KEY": _SECRET})
    refused = run_outlive("restart", "--json", first.process_id, state_dir=served.state_dir)
    assert refused.returncode == 1
    assert "API_KEY" in refused.stderr
    assert "--secret API_KEY" in refused.stderr
    assert not json.loads(refused.stdout)["processes"][0]["ok"]
    # What cannot be started again was not ended.
    assert first.info().ended_at is None
    second = _again(served, client, "restart", "--secret", "API_KEY", first.process_id)
    gate.open()
    assert _output(second) == b"7\n"
    with on_a_terminal("rerun", second.process_id, state_dir=served.state_dir) as screen:
        screen.until("API_KEY: ")
        screen.type("hunter22\r")
        shown = screen.until("runs again")
        assert screen.end() == 0
    assert "hunter22" not in shown
    assert _output(client.get(client.list(tags={REPEATS: second.process_id})[0].process_id)) == b"8\n"


@pytest.mark.promise("C.rerun")
def test_a_token_is_given_anew_and_a_key_is_not_repeated(served: OutliveServer, client: Client) -> None:
    """With the key the old run would answer, and nothing would run."""
    line = "printf %s $OUTLIVE_TOKEN | md5sum"  # the token itself is hidden
    first = client.start(line, grant="read:10m", key="once", project="/", name="granted")
    second = _again(served, client, "rerun", first.process_id)
    tokens = {_output(first), _output(second), _output(client.start("printf '' | md5sum"))}
    assert len(tokens) == 3
    assert second.process_id != first.process_id
    assert client.start(line, key="once", project="/").process_id == first.process_id
    third = _again(served, client, "rerun", second.process_id)
    assert _output(third) not in tokens


@pytest.mark.promise("C.rerun")
def test_what_is_run_beside_a_service_is_none(served: OutliveServer, client: Client, tmp_path: Path) -> None:
    """Without the tag by which a service is found, and without the name that it needs."""
    (tmp_path / "outlive.processes.toml").write_text('[services.repeated]\ncommand = "exec sleep 600"\n')
    up = run_outlive("up", "-d", state_dir=served.state_dir, cwd=tmp_path)
    assert up.returncode == 0, up.stderr
    beside = _again(served, client, "rerun", "repeated", folder=tmp_path)
    assert (beside.info().name, set(beside.info().tags)) == (None, {REPEATS})
    beside.cancel(0)
    again = run_outlive("restart", "repeated", state_dir=served.state_dir, cwd=tmp_path)
    assert again.stdout == "repeated  is ready\n"
    run_outlive("down", "--kill", state_dir=served.state_dir, cwd=tmp_path)


@pytest.mark.promise("C.rerun")
def test_a_terminals_shell_is_not_run_again(served: OutliveServer, client: Client) -> None:
    opened = client.terminals.call("create")
    refused = run_outlive("restart", opened["process_id"], state_dir=served.state_dir)
    assert (refused.returncode, "outlive terminal new" in refused.stderr) == (1, True)
    client.terminals.call("close", terminal_id=opened["terminal_id"])


_NAMES = st.sampled_from(["A", "PATH", "BASH_ENV", "OUTLIVE_BASH_ENV", "OUTLIVE_PROCESS_ID", "OUTLIVE_TOKEN"])


@given(
    st.dictionaries(_NAMES, st.sampled_from(["", "x", "/y/z"])),
    st.lists(st.sampled_from(["TOKEN", "KEY", CALLER_ENVIRONMENT]), unique=True),
    st.lists(st.sampled_from(["a", "-x", "/s/script"]), min_size=1, max_size=3),
    st.sampled_from([None, "echo\n"]),
    st.booleans(),
    st.dictionaries(st.sampled_from(["grant", "isolation", "notify"]), st.sampled_from(["run", ["end"]])),
)
def test_a_repetition_names_every_secret_and_nothing_of_the_old_process(
    env: dict[str, str],
    secrets: list[str],
    argv: list[str],
    script: str | None,
    is_line: bool,
    asked: dict[str, object],
) -> None:
    known = RepeatedProcess(
        process_id="01k9zq3v8d4t6r2m5x7b1n0c9f",
        command="a",
        shell="/bin/sh" if is_line else None,
        redacted=0,
        timeout_s=None,
        grace_s=1.0,
        profile="open",
        tags={},
        group=None,
        project=None,
        name=None,
        location=None,
    )
    spec = Spec(
        program="a",
        argv=tuple(argv),
        env=env,
        cwd="/",
        stdin="lent",
        secrets=tuple(secrets),
        meta={REPEATED: asked},
    )
    found = repetition_of(
        spec, known, script=script, script_path="/s/script", package="/site-packages/outlive"
    )
    given_env = found.options["env"]
    assert found.secrets == tuple(name for name in secrets if name != CALLER_ENVIRONMENT)
    assert not given_env.keys() & {"OUTLIVE_PROCESS_ID", "OUTLIVE_TOKEN", "OUTLIVE_BASH_ENV"}
    assert {name: given_env[name] for name in given_env if name in {"A", "PATH"}} == {
        name: value for name, value in env.items() if name in {"A", "PATH"}
    }
    if "OUTLIVE_BASH_ENV" in env:
        assert given_env["BASH_ENV"] == env["OUTLIVE_BASH_ENV"]
    assert found.options["stdin"] == "none"
    assert asked.items() <= found.options.items()
    assert found.options["tags"] == {REPEATS: known.process_id}
    assert found.lacks_environment == (CALLER_ENVIRONMENT in secrets)
    assert isinstance(found.command, str) == is_line
