"""The same start at every door: taken everywhere, or refused everywhere for the same reason."""

from typing import Any

import pytest

from tests.doors.starts import ACCEPTED, REFUSED, Door

_BAD = "invalid_params"
_LONG = "x" * 129

# What is asked for, and the verdict; members as JSON-RPC has them.
_STARTS: dict[str, tuple[dict[str, Any], str]] = {
    "a line": ({"command": "true"}, ACCEPTED),
    "words": ({"argv": ["true"]}, ACCEPTED),
    "a script": ({"script": "true"}, ACCEPTED),
    "an empty script": ({"script": ""}, ACCEPTED),
    "a script with NUL": ({"script": "true\0"}, _BAD),
    "nothing": ({}, _BAD),
    "a line and words": ({"command": "true", "argv": ["true"]}, _BAD),
    "a line and a script": ({"command": "true", "script": "true"}, _BAD),
    "words and a script": ({"argv": ["true"], "script": "true"}, _BAD),
    "an empty line": ({"command": ""}, _BAD),
    "a blank line": ({"command": " \t\n"}, _BAD),
    "a line with NUL": ({"command": "true\0"}, _BAD),
    "a line that is a number": ({"command": 5}, _BAD),
    "no words": ({"argv": []}, _BAD),
    "no program": ({"argv": [""]}, _BAD),
    "a word that is a number": ({"argv": ["true", 5]}, _BAD),
    "words that are a text": ({"argv": "true"}, _BAD),
    "a word with NUL": ({"argv": ["true", "\0"]}, _BAD),
    "an unknown program": ({"argv": ["/does/not/exist"]}, "not_found"),
    "a folder": ({"command": "true", "cwd": "/"}, ACCEPTED),
    "no folder": ({"command": "true", "cwd": None}, ACCEPTED),
    "a missing folder": ({"command": "true", "cwd": "/does/not/exist"}, "cwd_missing"),
    "a folder with NUL": ({"command": "true", "cwd": "/\0"}, _BAD),
    "a folder that is a number": ({"command": "true", "cwd": 5}, _BAD),
    "a variable": ({"command": "true", "env": {"A": "1"}}, ACCEPTED),
    "a variable to remove": ({"command": "true", "env": {"A": None}}, ACCEPTED),
    "a variable without a name": ({"command": "true", "env": {"": "1"}}, _BAD),
    "a variable with = in its name": ({"command": "true", "env": {"A=B": "1"}}, _BAD),
    "a variable with NUL": ({"command": "true", "env": {"A": "\0"}}, _BAD),
    "a variable that is a number": ({"command": "true", "env": {"A": 1}}, _BAD),
    "variables in a list": ({"command": "true", "env": ["A"]}, _BAD),
    "a secret": ({"command": "true", "env_secrets": {"KEY_OF_MINE": "long and secret"}}, ACCEPTED),
    "a secret to remove": ({"command": "true", "env_secrets": {"KEY_OF_MINE": None}}, _BAD),
    "a secret with = in its name": ({"command": "true", "env_secrets": {"A=B": "long and secret"}}, _BAD),
    "a secret with NUL": ({"command": "true", "env_secrets": {"KEY_OF_MINE": "long\0secret"}}, _BAD),
    "the open profile": ({"command": "true", "profile": "open"}, ACCEPTED),
    "an unknown profile": ({"command": "true", "profile": "weak"}, _BAD),
    "a profile without a name": ({"command": "true", "profile": ""}, _BAD),
    "no limits": ({"command": "true", "limits": {}}, ACCEPTED),
    "a limit of files": ({"command": "true", "limits": {"files": 64}}, ACCEPTED),
    "a limit of nothing": ({"command": "true", "limits": {"cpu": 0}}, _BAD),
    "a limit that is huge": ({"command": "true", "limits": {"files": 2**40}}, _BAD),
    "a limit that is a text": ({"command": "true", "limits": {"memory": "much"}}, _BAD),
    "an unknown limit": ({"command": "true", "limits": {"time": 5}}, _BAD),
    "limits in a list": ({"command": "true", "limits": []}, _BAD),
    "this machine": ({"command": "true", "backend": "local"}, ACCEPTED),
    "a backend without a name": ({"command": "true", "backend": ""}, _BAD),
    "a backend with a long name": ({"command": "true", "backend": "x" * 64}, _BAD),
    "an unknown backend": ({"command": "true", "backend": "nowhere"}, _BAD),
    "an image without a name": ({"command": "true", "image": ""}, _BAD),
    "an unknown isolation": ({"command": "true", "isolation": "loose"}, _BAD),
    "a umask": ({"command": "true", "umask": "022"}, ACCEPTED),
    "a umask of four digits": ({"command": "true", "umask": "0022"}, ACCEPTED),
    "a umask that is none": ({"command": "true", "umask": "888"}, _BAD),
    "a umask that is a number": ({"command": "true", "umask": 18}, _BAD),
    "a timeout": ({"command": "true", "timeout": 60}, ACCEPTED),
    "no timeout": ({"command": "true", "timeout": None}, ACCEPTED),
    "a timeout of half a second": ({"command": "true", "timeout": 0.5}, ACCEPTED),
    "a timeout of nothing": ({"command": "true", "timeout": 0}, _BAD),
    "a timeout before now": ({"command": "true", "timeout": -1}, _BAD),
    "a timeout that is a text": ({"command": "true", "timeout": "5"}, _BAD),
    "a timeout that is a flag": ({"command": "true", "timeout": True}, _BAD),
    "a timeout of ages": ({"command": "true", "timeout": 1e12}, _BAD),
    "no grace": ({"command": "true", "grace": 0}, ACCEPTED),
    "a grace before now": ({"command": "true", "grace": -1}, _BAD),
    "a grace of ages": ({"command": "true", "grace": 1e12}, _BAD),
    "a tag": ({"command": "true", "tags": {"a": "b"}}, ACCEPTED),
    "64 tags": ({"command": "true", "tags": {f"t{one}": "" for one in range(64)}}, ACCEPTED),
    "65 tags": ({"command": "true", "tags": {f"t{one}": "" for one in range(65)}}, _BAD),
    "a tag without a name": ({"command": "true", "tags": {"": "b"}}, _BAD),
    "a tag with a long name": ({"command": "true", "tags": {_LONG: "b"}}, _BAD),
    "a tag with a long value": ({"command": "true", "tags": {"a": "b" * 1025}}, _BAD),
    "a tag that is a number": ({"command": "true", "tags": {"a": 5}}, _BAD),
    "a group": ({"command": "true", "group": "g"}, ACCEPTED),
    "a group without a name": ({"command": "true", "group": ""}, _BAD),
    "a group with a long name": ({"command": "true", "group": _LONG}, _BAD),
    "a group that is a flag": ({"command": "true", "group": True}, _BAD),
    "a group's limit": ({"command": "true", "group": "l", "group_limit": 9}, ACCEPTED),
    "a group's limit of nothing": ({"command": "true", "group": "l", "group_limit": 0}, _BAD),
    "a group's limit that is huge": ({"command": "true", "group": "l", "group_limit": 1_000_001}, _BAD),
    "a group's limit that is a part": ({"command": "true", "group": "l", "group_limit": 1.5}, _BAD),
    "a terminal": ({"command": "true", "pty": True}, ACCEPTED),
    "a terminal of a size": ({"command": "true", "pty": True, "rows": 65535, "cols": 1}, ACCEPTED),
    "a terminal without rows": ({"command": "true", "pty": True, "rows": 0}, _BAD),
    "a terminal that is too wide": ({"command": "true", "pty": True, "cols": 65536}, _BAD),
    "a terminal of half a row": ({"command": "true", "pty": True, "rows": 2.5}, _BAD),
    "a terminal that is a text": ({"command": "true", "pty": "maybe"}, _BAD),
    "one stream": ({"command": "true", "merge": True}, ACCEPTED),
    "a terminal and one stream": ({"command": "true", "pty": True, "merge": True}, _BAD),
    "an input": ({"command": "true", "stdin": "pipe"}, ACCEPTED),
    "an unknown input": ({"command": "true", "stdin": "mine"}, _BAD),
    "a limit of output": ({"command": "true", "output_limit": 1}, ACCEPTED),
    "a limit of no output": ({"command": "true", "output_limit": 0}, _BAD),
    "an end at the limit": ({"command": "true", "output_limit": 9, "on_limit": "kill"}, ACCEPTED),
    "an unknown end at the limit": ({"command": "true", "on_limit": "explode"}, _BAD),
    "an end of all": ({"command": "true", "after_exit": "kill"}, ACCEPTED),
    "an unknown end of all": ({"command": "true", "after_exit": "later"}, _BAD),
    "a grant": ({"command": "true", "grant": "read:1m"}, ACCEPTED),
    "an unknown grant": ({"command": "true", "grant": "fly"}, _BAD),
    "a long grant": ({"command": "true", "grant": "r" * 41}, _BAD),
    "a grant of nothing": ({"command": "true", "grant": ""}, _BAD),
    "a project": ({"command": "true", "project": "/srv"}, ACCEPTED),
    "a project that is not absolute": ({"command": "true", "project": "here"}, _BAD),
    "a project that is a number": ({"command": "true", "project": 5}, _BAD),
    "a key": ({"command": "true", "key": "k"}, ACCEPTED),
    "a key without a name": ({"command": "true", "key": ""}, _BAD),
    "a key with a long name": ({"command": "true", "key": "k" * 201}, _BAD),
    "an unknown member": ({"command": "true", "unknown": 5}, _BAD),
}
# Where a promise wants another verdict: start and door -> the verdict, and the promise.
_PROMISED = {
    ("an unknown member", "jsonrpc"): (ACCEPTED, "S0.3.unknown-keys"),
    # The documents' tools take what else an old caller sends: their signature ends with "and so on".
    ("an unknown member", "mcp command_execute"): (ACCEPTED, "S1.1"),
    ("an unknown member", "mcp execute_linux_shell_command"): (ACCEPTED, "S4.2"),
    ("a timeout of half a second", "mcp command_execute"): (REFUSED, "S1.2"),
    # Models write numbers as texts and texts as numbers, and a timeout of 0 for none.
    ("a variable that is a number", "mcp run"): (ACCEPTED, "S4.13.lenient"),
    ("a timeout of nothing", "mcp run"): (ACCEPTED, "S4.13.lenient"),
    ("a timeout that is a text", "mcp run"): (ACCEPTED, "S4.13.lenient"),
}


@pytest.mark.parametrize("name", _STARTS)
def test_a_start_has_one_verdict(name: str, doors: dict[str, Door]) -> None:
    members, wanted = _STARTS[name]
    found = {door: verdict for door, start in doors.items() if (verdict := start(members)) is not None}
    assert len(found) >= 2
    expected = {}
    for door, verdict in found.items():
        told, _promise = _PROMISED.get((name, door), (wanted, ""))
        expected[door] = REFUSED if verdict == REFUSED and told != ACCEPTED else told
    assert found == expected


def test_a_key_is_taken_twice_and_refused_with_another_command(doors: dict[str, Door]) -> None:
    """Each door has a key of its own: the command line and the tools start in projects, the others in
    none.
    """
    found = {}
    for door, start in doors.items():
        key = f"twice at {door}"
        asked = [{"command": command, "key": key} for command in ("true", "true", "false")]
        if (first := start(asked[0])) is not None:
            found[door] = [first, *map(start, asked[1:])]
    assert set(found) == {"jsonrpc", "rest", "mcp run", "client", "cli"}
    for door, verdicts in found.items():
        refused = REFUSED if door in {"mcp run", "cli"} else "key_taken"
        assert verdicts == [ACCEPTED, ACCEPTED, refused], door
