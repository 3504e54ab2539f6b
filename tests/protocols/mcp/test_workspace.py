"""What a workspace's shell has written is read exactly, or not at all."""

from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.mcp.results import WorkspaceState, carried_environment, parse_state

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
    assert (state.variables["A"] or "").encode("utf-8", "surrogateescape") == b"\xfe"
    assert sorted(state.variables) == ["A", "C"]


@given(st.dictionaries(_NAMES, st.one_of(st.none(), _VALUES)))
def test_a_name_alone_is_a_variable_that_is_gone(variables: dict[str, str | None]) -> None:
    """S4.13: what belongs to each shell and terminal anew is left alone, gone or not."""
    words = ["/\n", *(name if value is None else f"{name}={value}" for name, value in variables.items())]
    state = parse_state("".join(word + "\0" for word in words).encode() + b"end")
    assert state is not None
    own = {name for name in variables if name in _OWN or name.startswith("OUTLIVE_")}
    assert state.variables == {name: value for name, value in variables.items() if name not in own}


def test_the_preludes_own_startup_file_is_not_taken_for_a_variable_that_is_gone() -> None:
    """S4.13: `workspace.bash` unsets BASH_ENV itself; the user's own is carried."""
    gone, set_ = (parse_state(b"/\n\0" + word + b"\0end") for word in (b"BASH_ENV", b"BASH_ENV=/x"))
    assert gone is not None
    assert set_ is not None
    assert (gone.variables, set_.variables) == ({}, {"BASH_ENV": "/x"})


@given(st.dictionaries(_NAMES, st.one_of(st.none(), _VALUES)))
def test_a_workspaces_shell_is_told_what_the_workspace_has_brought(variables: dict[str, str | None]) -> None:
    """S4.13: names in two variables; their values are the command's."""
    told = carried_environment(variables)
    carried, removed = told.pop("OUTLIVE_CARRIED"), told.pop("OUTLIVE_REMOVED")
    assert carried is not None
    assert removed is not None
    assert set(carried.split()) == {name for name, value in variables.items() if value is not None}
    assert set(removed.split()) == {name for name, value in variables.items() if value is None}
    assert told == variables
