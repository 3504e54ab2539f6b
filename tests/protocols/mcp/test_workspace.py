"""What a workspace's shell has written is read exactly, or not at all."""

from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.mcp.results import WorkspaceState, parse_state

_NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,10}\Z")
_VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
_OWN = {"SHLVL", "_", "PWD", "TERM", "LINES", "COLUMNS"}


def _written(cwd: str, variables: dict[str, str]) -> bytes:
    words = [f"{cwd}\n", *(f"{name}={value}" for name, value in variables.items())]
    return "".join(word + "\0" for word in words).encode() + b"end"


@given(_VALUES, st.dictionaries(_NAMES, _VALUES))
def test_what_was_written_is_read(folder: str, variables: dict[str, str]) -> None:
    """S4.13: newlines, equals signs and every character but NUL."""
    state = parse_state(_written(f"/{folder}", variables))
    carried = {
        name: value
        for name, value in variables.items()
        if name not in _OWN and not name.startswith("OUTLIVE_")
    }
    assert state == WorkspaceState(cwd=f"/{folder}", variables=carried)


@given(st.dictionaries(_NAMES, _VALUES, max_size=4), st.data())
def test_a_torn_file_is_none(variables: dict[str, str], data: st.DataObject) -> None:
    """S4.13: a shell that was killed while it wrote leaves the workspace as it was."""
    whole = _written("/a", variables)
    assert parse_state(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


@given(st.binary(max_size=60), st.binary(max_size=20))
def test_no_bytes_upset_the_reader(data: bytes, more: bytes) -> None:
    """S4.13."""
    for one in (data, b"/a\n\0" + data + b"\0end", data + b"\0" + more + b"\0end"):
        state = parse_state(one)
        assert state is None or state.cwd.startswith("/")


def test_invalid_utf8_stays_as_it_is_and_what_no_program_could_get_is_left_out() -> None:
    """S4.13; execve(2), MAX_ARG_STRLEN."""
    data = b"/\xff\n\0A=\xfe\0B=" + b"x" * 131_069 + b"\0C=" + b"x" * 131_068 + b"\0end"
    state = parse_state(data)
    assert state is not None
    assert state.cwd.encode("utf-8", "surrogateescape") == b"/\xff"
    assert state.variables["A"].encode("utf-8", "surrogateescape") == b"\xfe"
    assert sorted(state.variables) == ["A", "C"]


@given(st.dictionaries(_NAMES, _VALUES), st.sets(_NAMES | st.sampled_from([*_OWN, "OUTLIVE_X", "a.b"])))
def test_an_environment_becomes_what_the_shell_had(variables: dict[str, str], base: set[str]) -> None:
    """S4.13: what is gone is removed; what belongs to each shell and terminal anew is left alone."""
    state = parse_state(_written("/", variables))
    assert state is not None
    began = dict.fromkeys(base, "old")
    for name, value in state.environment(base).items():
        if value is None:
            del began[name]
        else:
            began[name] = value
    kept = {name for name in base if name in _OWN or name.startswith("OUTLIVE_") or name == "a.b"}
    assert began == {**dict.fromkeys(kept, "old"), **state.variables}
