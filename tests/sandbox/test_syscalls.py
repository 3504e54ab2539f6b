"""Filters of system calls: the assembler against a machine of our own, the numbers against the kernel's
headers.
"""

import os
import shutil
import struct
import subprocess
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.keeper.sandbox.syscalls import (
    ARCHITECTURES,
    Branch,
    Decision,
    Kind,
    Return,
    assemble,
    by_ranges,
    filter_program,
    numbers,
)

_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_WORDS = st.integers(0, 2**32 - 1)
_OFFSETS = st.sampled_from([0, 4, 16, 20, 24])


def run(program: bytes, data: bytes) -> int:
    """Execute classic BPF as the kernel does: what it returns; jumps go forwards only, so it ends."""
    code = list(struct.iter_unpack("<HBBI", program))
    accumulator, position = 0, 0
    while True:
        what, yes, no, k = code[position]
        position += 1
        match what:
            case 0x20:
                accumulator = struct.unpack_from("<I", data, k)[0]
            case 0x05:
                position += k
            case 0x15:
                position += yes if accumulator == k else no
            case 0x35:
                position += yes if accumulator >= k else no
            case 0x45:
                position += yes if accumulator & k else no
            case 0x06:
                return int(k)
            case _:
                raise AssertionError(what)


def _decide(decision: Decision, data: bytes) -> int:
    """Follow a decision as it is written."""
    while isinstance(decision, Branch):
        word = struct.unpack_from("<I", data, decision.offset)[0]
        holds = {
            Kind.EQUAL: word == decision.value,
            Kind.AT_LEAST: word >= decision.value,
            Kind.ANY_BIT: bool(word & decision.value),
        }[decision.kind]
        decision = decision.yes if holds else decision.no
    return decision.value


_DECISIONS: st.SearchStrategy[Decision] = st.recursive(
    st.builds(Return, _WORDS),
    lambda inner: st.builds(
        Branch,
        offset=_OFFSETS,
        kind=st.sampled_from(Kind),
        value=st.integers(0, 8) | _WORDS,
        yes=inner,
        no=inner,
    ),
    max_leaves=40,
)


def _call(number: int, *arguments: int, architecture: int) -> bytes:
    """Return struct seccomp_data."""
    words = (*arguments, *[0] * (6 - len(arguments)))
    return struct.pack("<iIQ6Q", number if number < 2**31 else number - 2**32, architecture, 0, *words)


@given(_DECISIONS, st.lists(st.integers(0, 8) | _WORDS, min_size=16, max_size=16))
def test_a_program_decides_as_it_is_written(decision: Decision, words: list[int]) -> None:
    data = struct.pack("<16I", *words)
    assert run(assemble(decision), data) == _decide(decision, data)


@given(st.integers(0, 700))
def test_jumps_reach_as_far_as_they_have_to(number: int) -> None:
    """A conditional jump reaches 255 instructions; what lies farther away is reached otherwise."""
    chain: Decision = Return(9999)
    for value in reversed(range(600)):
        chain = Branch(offset=0, kind=Kind.EQUAL, value=value, yes=Return(value), no=chain)
    around = Branch(offset=4, kind=Kind.EQUAL, value=1, yes=chain, no=Return(7))
    assert run(assemble(around), struct.pack("<2I", number, 1)) == (number if number < 600 else 9999)
    assert run(assemble(around), struct.pack("<2I", number, 0)) == 7


@given(st.lists(_WORDS, min_size=1, max_size=30, unique=True), _WORDS)
def test_ranges_are_found(starts: list[int], word: int) -> None:
    ranges = [(start, Return(start)) for start in sorted({0, *starts})]
    found = run(assemble(by_ranges(0, ranges)), struct.pack("<I", word))
    assert found == max(start for start, _ in ranges if start <= word)


_JUDGED: Mapping[str, list[tuple[tuple[int, ...], int]]] = {
    "prlimit64": [
        ((0, 7, 1, 1), _ALLOW),
        ((5, 7, 0, 1), _ALLOW),
        ((5, 7, 1, 0), _EPERM),
        ((5, 7, 1 << 32, 0), _EPERM),
        ((5 | 1 << 32, 7, 1, 0), _EPERM),
    ],
    "setpriority": [((0, 0, 5), _ALLOW), ((1, 0, 5), _ALLOW), ((0, 9, 5), _EPERM), ((2, 0, 5), _EPERM)],
    "ioprio_set": [((1, 0, 5), _ALLOW), ((2, 0, 5), _ALLOW), ((1, 9, 5), _EPERM), ((3, 0, 5), _EPERM)],
    "sched_setaffinity": [((0, 8, 1), _ALLOW), ((1, 8, 1), _EPERM)],
    "unshare": [((0x400,), _ALLOW), ((0x10000000,), _EPERM), ((0x80,), _EPERM)],
    "clone": [((17,), _ALLOW), ((0x80 | 17,), _ALLOW), ((0x10000000 | 17,), _EPERM), ((0x3D0F00,), _ALLOW)],
    "clone3": [((1, 64), _ENOSYS)],
    "ioctl": [((0, 0x5413), _ALLOW), ((0, 0x5412), _EPERM), ((0, 0x5412 | 1 << 32), _EPERM)],
    "socket": [
        ((1,), _ALLOW),
        ((2,), _ALLOW),
        ((10,), _ALLOW),
        ((16,), _ALLOW),
        ((40,), _EPERM),
        ((2**32 + 38,), _EPERM),
    ],
    "keyctl": [((0,), _EPERM)],
    "mount": [((0,), _EPERM)],
}


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("name", _JUDGED)
def test_calls_are_judged_by_their_arguments(machine: str, name: str) -> None:
    program, number = filter_program(machine, has_own_ipc=True), numbers(machine)[name]
    for arguments, expected in _JUDGED[name]:
        assert run(program, _call(number, *arguments, architecture=ARCHITECTURES[machine])) == expected


# In a PID namespace of its own: whatever number, but 1, which is our init, and users, who are outside, too.
_SEALED: Mapping[str, list[tuple[tuple[int, ...], int]]] = {
    "prlimit64": [
        ((0, 7, 1, 1), _ALLOW),
        ((5, 7, 1, 0), _ALLOW),
        ((1, 7, 0, 1), _ALLOW),
        ((1, 7, 1, 0), _EPERM),
        ((1 | 1 << 32, 7, 1, 0), _EPERM),
    ],
    "setpriority": [((0, 9, 5), _ALLOW), ((1, 9, 5), _ALLOW), ((0, 1, 5), _EPERM), ((2, 0, 5), _EPERM)],
    "ioprio_set": [((1, 9, 5), _ALLOW), ((2, 9, 5), _ALLOW), ((1, 1, 5), _EPERM), ((3, 0, 5), _EPERM)],
    **{
        name: [((0, 8, 1), _ALLOW), ((9, 8, 1), _ALLOW), ((1, 8, 1), _EPERM), ((1 | 1 << 32, 8, 1), _EPERM)]
        for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
    },
    "move_pages": [((9, 1, 0), _ALLOW), ((1, 1, 0), _EPERM)],
    "migrate_pages": [((9, 1, 0), _ALLOW), ((1, 1, 0), _EPERM)],
    **{name: _JUDGED[name] for name in ("unshare", "clone", "clone3", "ioctl", "socket", "keyctl", "mount")},
}


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("name", _SEALED)
def test_in_a_pid_namespace_of_its_own_every_pid_is_allowed_but_that_of_our_init(
    machine: str, name: str
) -> None:
    program = filter_program(machine, has_own_ipc=True, has_own_pids=True)
    for arguments, expected in _SEALED[name]:
        call = _call(numbers(machine)[name], *arguments, architecture=ARCHITECTURES[machine])
        assert run(program, call) == expected, arguments


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_what_is_not_named_is_allowed_newer_calls_are_not_there_and_other_abis_are_denied(
    machine: str,
) -> None:
    program, own = filter_program(machine, has_own_ipc=True), ARCHITECTURES[machine]
    named = set(numbers(machine).values())
    for number in range(600):
        found = run(program, _call(number, architecture=own))
        if number > 469:
            assert found == _ENOSYS
        elif number not in named:
            assert found == _ALLOW
    for number in (0x40000000, 0x40000000 | 39, 2**31, 2**32 - 1):
        assert run(program, _call(number, architecture=own)) == _EPERM
    for other in (0x40000003, *(ARCHITECTURES[one] for one in ARCHITECTURES if one != machine)):
        assert run(program, _call(39, architecture=other)) == _EPERM


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_system_v_ipc_is_allowed_in_a_namespace_only(machine: str) -> None:
    call = _call(numbers(machine)["shmat"], 1, architecture=ARCHITECTURES[machine])
    assert run(filter_program(machine, has_own_ipc=True), call) == _ALLOW
    assert run(filter_program(machine, has_own_ipc=False), call) == _EPERM


_COMPILERS = {"x86_64": "x86_64-linux-gnu-gcc", "aarch64": "aarch64-linux-gnu-gcc"}
_NEWER = {"open_tree_attr", "setxattrat", "removexattrat", "file_setattr"}  # than the headers of Debian 12


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    compiler = shutil.which(_COMPILERS[machine])
    if compiler is None:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), f"no compiler for {machine}"
        pytest.skip(f"no compiler for {machine}")
    named = numbers(machine)
    source = "#include <sys/syscall.h>\n" + "".join(f"{name} __NR_{name}\n" for name in named)
    told = subprocess.run(
        [compiler, "-E", "-P", "-x", "c", "-"], input=source, capture_output=True, text=True, check=True
    ).stdout
    found = {
        words[0]: words[1]
        for line in told.splitlines()
        if len(words := line.split()) == 2 and words[0] in named
    }
    for name, number in named.items():
        if number < 0:
            assert found[name].startswith("__NR"), name
        elif name not in _NEWER or not found[name].startswith("__NR"):
            assert found[name] == str(number), name
