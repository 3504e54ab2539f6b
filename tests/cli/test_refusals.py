"""Every error that a server may answer, at every verb that asks one: really run, against a small server that
refuses.
"""

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlive.cli.parameters import Parameter, UsageError
from outlive.cli.parser import parse
from outlive.cli.program import TOP_PARAMETERS, Group, program
from outlive.client.link import is_passing
from outlive.core.errors import SLUGS, ProcessNotFound, error_from_slug
from tests.cli.answering import AnsweringServer
from tests.cli.forked_calls import Called, ForkedCalls, forked_calls, verbs_of
from tests.support.door_words import FOREIGN
from tests.support.server import OutliveServer

_VERBS = verbs_of(program())
# What is run of each verb that asks the server: `web` and the service `job` live, `old` has ended.
_CALLS = {
    "run": "run -- true",
    "attach": "attach web",
    "up": "up -d",
    "down": "down",
    "ps": "ps",
    "restart": "restart web",
    "rerun": "rerun old",
    "logs": "logs -f web",
    "search": "search word",
    "inspect": "inspect web",
    "wait": "wait web",
    "send": "send web yes",
    "answer": "answer --stdin --force web",
    "pause": "pause web",
    "resume": "resume web",
    "kill": "kill web",
    "stop": "stop web",
    "signal": "signal HUP web",
    "stats": "stats --no-stream web",
    "events": "events web",
    "rename": "rename web other",
    "tag": "tag web a=b",
    "rm": "rm old",
    "prune": "prune --yes --tag kind=old",
    "df": "df",
    "ui": "ui --print",
    "approvals": "approvals",
    "approve": "approve 0123456789ab",
    "deny": "deny web",
    "cp": "cp /etc/hostname local:/tmp/refused",
    "node ls": "node ls",
    "node add": "node add far http://127.0.0.1:9",
    "node inspect": "node inspect local",
    "node drain": "node drain local",
    "node resume": "node resume local",
    "node adopt": "node adopt far",
    "node rm": "node rm far",
    "node invite": "node invite far",
    "node join": "node join ws://127.0.0.1:9 --token-file /etc/hostname",
    "node leave": "node leave far",
    "terminal ls": "terminal ls",
    "terminal new": "terminal new",
    "terminal exec": "terminal exec -t shell true",
    "terminal send": "terminal send shell yes",
    "terminal read": "terminal read shell",
    "terminal attach": "terminal attach shell",
    "terminal close": "terminal close shell",
}
# These work on files and processes of this machine, or are a server's other end themselves; `doctor` and
# `open` go on without one.
_ASK_NO_SERVER = """
    install uninstall completion serve stop-server doctor mcp keeper.status keeper.upgrade keeper.stop keeper.run config.show policy.check policy.always policy.forget
    service.install service.uninstall service.status token.create token.list token.revoke containers.ls containers.rm
    audit.verify audit.show audit.begin backup restore
"""  # noqa: E501 -- lines of a table, or of another language
_LOOKS = frozenset({"list", "get", "services_list", "terminal_list", "read"})
# docs/cli.md: of these an exit code below 125 is the command's own.
_OURS_FAILED = {"run": 125, "attach": 125, "terminal attach": 125}
# A shell's own words and exit codes for a program that cannot be started, which scripts know.
_OF_A_SHELL = {"not_found": 127, "permission_denied": 126, "argument_too_long": 126}
_MADE_UP = {"COUNT": "5", "TIME": "5s", "ID": "web"}  # for what stands in capitals in a hint


@dataclass(frozen=True, slots=True)
class World:
    """The server that refuses, what calls the command line, and a folder with a project in it."""

    server: AnsweringServer
    calls: ForkedCalls
    folder: Path


@pytest.fixture(scope="module")
def world(served: OutliveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "outlive.processes.toml").write_text('[services.job]\ncommand = "exec sleep 60"\n')
    state_dir = folder / "state"
    with AnsweringServer(state_dir, served, looks=_LOOKS) as server, forked_calls() as calls:
        for words in (
            "run -d --name web -- sleep 60",
            "run -d --name old --tag kind=old -- true",
            "wait old",
            "terminal new --name shell",
            "up -d",
        ):
            env = {"OUTLIVE_STATE_DIR": str(served.state_dir), "SHELL": "/bin/bash"}
            done = calls.call(shlex.split(words), env=env, cwd=folder)
            assert done.code == 0, (words, done)
        yield World(server, calls, folder)


def test_every_verb_is_one_that_asks_the_server_or_one_that_does_not() -> None:
    without = {name.replace(".", " ") for name in _ASK_NO_SERVER.split()}
    assert not without & set(_CALLS)
    assert without | set(_CALLS) == set(_VERBS)


@pytest.mark.thorough
def test_every_error_and_every_verb_answer_in_one_line_with_what_to_type_next(world: World) -> None:
    """Each error at one verb, each verb with three errors: exit code, one sentence, a hint in the command
    line's own words.
    """
    rounds = zip(
        itertools.islice(itertools.cycle(SLUGS), 3 * len(_CALLS)), itertools.cycle(_CALLS), strict=False
    )
    assert len(SLUGS) <= 3 * len(_CALLS)
    _check(world, rounds)


@pytest.mark.rare
@pytest.mark.parametrize("verb", _CALLS)
def test_every_error_at_a_verb_is_one_line_with_what_to_type_next(world: World, verb: str) -> None:
    _check(world, ((slug, verb) for slug in SLUGS))


def _check(world: World, rounds: Iterable[tuple[str, str]]) -> None:
    """Have each error answered where the verb does its work; where it only looks, there."""
    faults: list[tuple[str, ...]] = []
    server = world.server
    for slug, verb in rounds:
        # What a moment later may not come any more is waited for, by what follows or writes; not where it is
        # looked for. And what was to be removed, and is not there, is removed.
        error = error_from_slug(slug, "")
        is_gone = verb == "prune" and isinstance(error, ProcessNotFound)
        server.slug, server.refuses_all = slug, slug == "stdin_full" or is_passing(error) or is_gone
        server.refused.clear()
        done = _called(world, verb)
        if not server.refused:
            assert not done.err, (slug, verb, done)
            server.refuses_all = True
            done = _called(world, verb)
        assert server.refused, (slug, verb, done)
        faults += [
            (verb, slug, fault, done.err)
            for fault in _faults(verb, slug, done, is_looking=server.refuses_all)
        ]
    assert not faults, "\n".join(map(str, faults))


def _called(world: World, verb: str) -> Called:
    env = {"OUTLIVE_STATE_DIR": str(world.server.state_dir)}
    return world.calls.call(shlex.split(_CALLS[verb]), env=env, cwd=world.folder)


def _faults(verb: str, slug: str, done: Called, *, is_looking: bool) -> Iterator[str]:
    """Yield what is wrong with the answer to an error; `is_looking`: it came before the verb did its work."""
    is_of_a_shell = verb == "run" and slug in _OF_A_SHELL
    wanted = (
        _OF_A_SHELL[slug]
        if is_of_a_shell
        else 1
        if is_looking and verb != "run"
        else _OURS_FAILED.get(verb, 1)
    )
    if done.code != wanted:
        yield f"exit code {done.code} instead of {wanted}"
    lines = done.err.splitlines()
    errors = [line for line in lines if line.startswith("outlive: ")]
    hints = [line.strip() for line in lines if line.startswith("  ")]
    if is_of_a_shell:
        if len(errors) != 1:
            yield "no single line"
        return
    if len(lines) != 2 or len(errors) != 1 or len(hints) != 1:
        yield "not one line of error and one of a hint"
    for hint in hints:
        if found := re.search(FOREIGN["cli"], hint):
            yield f"a word of another door: {found[0]!r}"
        yield from _unknown_commands(hint)
        yield from _unknown_flags(verb, hint)


def _unknown_commands(hint: str) -> Iterator[str]:
    for line in re.findall(r"`outlive ([^`]*)`", hint):
        words = [_MADE_UP.get(word, word) for word in shlex.split(line)]
        group: Group = program()
        found = None
        while words and (found := group.find(words[0])) is not None:
            words = words[1:]
            if not isinstance(found, Group):
                break
            group = found
        if found is None or isinstance(found, Group):
            yield f"no such command: {line!r}"
        elif "--help" not in words:
            try:
                parse((*found.action.parameters, *TOP_PARAMETERS), words)
            except UsageError as error:
                # A command that is named with one of its flags alone lacks the rest: `outlive run --pty`.
                if not str(error).startswith("Missing argument"):
                    yield f"{line!r}: {error}"


def _unknown_flags(verb: str, hint: str) -> Iterator[str]:
    """Yield the flags that a hint names outside of commands, and that neither this verb nor, of a server,
    `serve` has.
    """
    outside = re.sub(r"`[^`]*`", "", hint)
    known = set(itertools.chain(*(one.flags for one in (*_VERBS[verb].action.parameters, *TOP_PARAMETERS))))
    if "server" in outside or "operator" in outside:
        known |= set(itertools.chain(*(_flags(one) for one in _VERBS["serve"].action.parameters)))
    for flag in re.findall(r"(?<!\w)--[a-z][a-z-]*", outside):
        if flag not in known:
            yield f"{flag} is no flag of `outlive {verb}`"


def _flags(one: Parameter) -> tuple[str, ...]:
    return (*one.flags, one.off)
