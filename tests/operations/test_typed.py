"""Commands as they are typed: what a shell without marks is typed means what the command means."""

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest
from outlive.operations.terminal_requests import (
    KEYS,
    WriteToTerminal,
    check_keys,
    prompts,
    typed_command,
    typed_keys,
)

_KEY = "0123456789abcdef"
_texts = st.text(
    st.characters(blacklist_categories=("Cs", "Cc")) | st.sampled_from("\n\t'\"\\$`!"),
    min_size=1,
    max_size=60,
).filter(lambda text: text.strip() != "")


@given(_texts)
def test_a_paste_holds_the_command_and_cannot_be_left(text: str) -> None:
    typed = typed_command(text, "bash", _KEY)
    assert typed.startswith(b"\x1b[133;1~\x1b[200~")
    assert typed.endswith(b"\x1b[201~\r")
    assert typed.count(b"\x1b") == 3
    assert typed[len(b"\x1b[133;1~\x1b[200~") : -len(b"\x1b[201~\r")].decode() == text.strip("\n")


@settings(max_examples=25, deadline=None)
@given(st.lists(_texts, min_size=1, max_size=3))
def test_a_shell_without_a_start_file_gets_the_same_words(words: list[str]) -> None:
    command = "printf '<%s>' " + " ".join(map(shlex.quote, words))
    typed = typed_command(command, "sh", _KEY)[1:]
    shell = subprocess.run(["sh", "-c", typed.decode()], capture_output=True, check=True, timeout=20)
    expected = "".join(f"<{word}>" for word in words).encode()
    key = _KEY.encode()
    assert shell.stdout == b"\x1b]133;C;aid=%s\x07%s\x1b]133;D;0;aid=%s\x07" % (key, expected, key)


def test_a_line_that_nobody_edits_has_an_end() -> None:
    with pytest.raises(InvalidRequest, match="4000 bytes"):
        typed_command("echo " + "x" * 4000, "sh", _KEY)
    typed_command("echo x\n" * 4000, "sh", _KEY)


def test_prompts_bear_the_marks() -> None:
    assert prompts(_KEY)["PS1"].count(f"aid={_KEY}") == 3


def test_keys_have_names() -> None:
    assert typed_keys("a", ["Ctrl-C", "up", "enter"]) == b"a\x03\x1b[A\r"
    assert typed_keys(None, None) == b""
    assert typed_keys("a", ["Q", "space", "q", "é"]) == "aQ qé".encode()
    check_keys([*KEYS, "ENTER", "q", "/"])
    with pytest.raises(ValueError, match="'f99' is no key"):
        check_keys(["f99"])
    with pytest.raises(ValueError, match="text or keys"):
        WriteToTerminal(terminal_id="x")
