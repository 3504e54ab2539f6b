"""What a command is given: words, variables, secrets, lines and scripts of any size."""

import os
import subprocess
from pathlib import Path

import pytest

from outlive.client import InvalidRequest
from tests.contract.places import Asker, Place
from tests.extensions.docker.tools import PYTHON
from tests.extensions.fleet.pairs import PATIENCE_S, output_of
from tests.support.server import outlive_command


def test_variables_are_added_and_removed(asker: Asker) -> None:
    """Text, bytes that are no text, and a name that is to be missing."""
    odd = os.fsdecode(b"\xff\xfe=\n")
    process = asker.start(["env", "-0"], env={"MINE": "1", "ODD": odd, "PATH": "/usr/bin:/bin", "HOME": None})
    words = output_of(process)[0].split(b"\0")
    assert {b"MINE=1", b"ODD=\xff\xfe=\n", b"PATH=/usr/bin:/bin"} <= set(words)
    assert not any(word.startswith(b"HOME=") for word in words)


def test_an_environment_of_ones_own_is_all_there_is(asker: Asker) -> None:
    """`inherit_env` False: nothing but what was given, and our own names."""
    process = asker.start(["/usr/bin/env", "-0"], env={"MINE": "1"}, inherit_env=False)
    names = {word.partition(b"=")[0] for word in output_of(process)[0].split(b"\0") if word}
    assert b"MINE" in names
    assert {name for name in names if not name.startswith(b"OUTLIVE_")} <= {b"MINE", b"PWD", b"TERM"}


def test_nothing_of_the_servers_secrets_is_inherited(asker: Asker) -> None:
    """The process knows who it is."""
    process = asker.start("echo $OUTLIVE_PROCESS_ID")
    assert output_of(process)[0].decode() == f"{process.process_id}\n"


def test_words_hold_every_byte(asker: Asker) -> None:
    """All but NUL, which ends a word in the kernel; also an empty one."""
    everything = os.fsdecode(bytes(range(1, 256)))
    line = "import os, sys; sys.stdout.buffer.write(b'|'.join(map(os.fsencode, sys.argv[1:])))"
    process = asker.start([PYTHON, "-I", "-S", "-c", line, everything, "", "a b", "'\"$(x)\\"])
    assert output_of(process)[0] == b"|".join([bytes(range(1, 256)), b"", b"a b", b"'\"$(x)\\"])


def test_a_line_of_three_megabytes_runs(asker: Asker) -> None:
    """Longer than any word may be (execve(2), MAX_ARG_STRLEN)."""
    text = "0123456789" * 300_000
    process = asker.start(f"x={text}; echo ${{#x}}; exit 5")
    assert output_of(process) == (b"3000000\n", b"")
    assert process.wait(PATIENCE_S).exit_code == 5


def test_a_script_of_three_megabytes_runs(asker: Asker) -> None:
    """Given to a program as its last word; the shell reads it from a file."""
    script = "# " + "x" * 3_000_000 + '\nprintf "%s %s" "$1" "$#"; exit 4\n'
    process = asker.start(["sh", "-e"], script=script)
    assert output_of(process) == (b" 0", b"")
    assert process.wait(PATIENCE_S).exit_code == 4
    process = asker.start([PYTHON, "-I", "-S"], script="import sys; print(sys.argv[1:]); sys.exit(3)")
    assert output_of(process) == (b"[]\n", b"")
    assert process.wait(PATIENCE_S).exit_code == 3


def _holders(place: Place, secret: bytes) -> list[Path]:
    files = (path for server in place.servers for path in server.state_dir.rglob("*") if path.is_file())
    return [path for path in files if secret in path.read_bytes()]


@pytest.mark.parametrize("how", ["pipe", "terminal", "line of megabytes"])
def test_a_secret_reaches_the_command_and_no_file(asker: Asker, how: str) -> None:
    """The value is in no file of any server's state folder; what the command prints of it is hidden."""
    secret = "correct-horse-battery-" + os.urandom(12).hex()
    line = 'printf %s "$KEY" | wc -c; test "$KEY" = "$(cat key)" && echo same'
    (asker.place.folder / "key").write_text(secret)
    line += "; : " + "x" * 500_000 if how.startswith("line") else ""
    process = asker.start(line, env_secrets={"KEY": secret}, pty=how == "terminal")
    assert output_of(process)[0].split() == [b"%d" % len(secret), b"same"]
    info = process.wait(PATIENCE_S, until="closed")
    assert info.secret_names == ("KEY",)
    assert _holders(asker.place, secret.encode()) == []
    printed = asker.start('echo "<$KEY>"', env_secrets={"KEY": secret})
    out = output_of(printed)[0]
    assert out.startswith(b"<")
    assert secret.encode() not in out


def test_a_lent_descriptor_goes_only_where_it_can(asker: Asker) -> None:
    """`outlive run` lends its own input, or feeds it where it cannot be lent.

    Lending there is refused clearly.
    """
    place = asker.place
    if place.lacks("lent descriptor"):
        with pytest.raises(InvalidRequest):
            asker.start("cat", stdin="lent")
    (place.folder / "input").write_bytes(bytes(range(256)) * 1000)
    words = ["run", "--cwd", str(place.folder), "--state-dir", str(place.near.state_dir)]
    words += place.words
    with (place.folder / "input").open("rb") as file:
        ran = subprocess.run(
            [*outlive_command(), *words, "--", "sh", "-c", "cat; echo err >&2; exit 6"],
            stdin=file,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert (ran.returncode, ran.stdout, ran.stderr) == (6, bytes(range(256)) * 1000, b"err\n")


@pytest.mark.promise("C.umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, b"644"), (0o077, b"600"), (0o002, b"664")])
def test_new_files_have_the_modes_that_the_umask_leaves(asker: Asker, umask: int, mode: bytes) -> None:
    """Given by the caller; in a container and on a node, too."""
    process = asker.start('f=$(mktemp -d)/f; : > "$f"; stat -c %a "$f"; umask', umask=umask)
    assert output_of(process)[0].split() == [mode, b"%04o" % umask]
