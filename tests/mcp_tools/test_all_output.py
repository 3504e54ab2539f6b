"""`read` without an id: a pattern in the output of all processes of the project."""

import re
from dataclasses import replace

import pytest

from outlive.core.identity import is_process_id
from outlive.engine import Engine, ProcessFilter
from outlive.frontends.mcp.tools import Caller, Toolbox
from outlive.frontends.mcp.tools.calls import Project
from outlive.policy.access import Scope
from tests.mcp_tools.calling import a_caller, answer, refuses, say

pytestmark = pytest.mark.promise("S4.13.grep.all")


def _in(root: str, caller: Caller) -> Caller:
    return replace(caller, project=Project(root=root, cwd="/", env={}, relay=root))


async def test_all_processes_are_searched_newest_first_each_below_its_own_line(toolbox: Toolbox) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command="echo zebra one; echo other; echo Zebra two >&2")
    await say(toolbox, "run", caller, command="seq 3; printf '\\033[1mze\\033[0mbra zebra three\\n'; exit 2")
    await say(toolbox, "run", caller, command="echo nothing of it")
    text = await say(toolbox, "read", caller, grep="zebra")
    second, first = '[p2 exit 2] "seq 3; ', "[p1 exit 0] 'echo zebra one; "
    lines = re.sub(r", [^,]+ ago\]", "]", text).splitlines()
    assert (lines[0][: len(second)], lines[1]) == (second, "zebra zebra three")
    assert (lines[2][: len(first)], lines[3:]) == (first, ["zebra one", "Zebra two"])
    # As in one output: a capital in the pattern says that case counts, and what is no regular expression is a
    # text.
    assert (await say(toolbox, "read", caller, grep="Z\\w+a")).splitlines()[1:] == ["Zebra two"]
    assert await say(toolbox, "read", caller, grep="one(") == (
        "[grep is no regular expression of RE2, which has no look-around: taken as plain text]\n[no line "
        "matches]"
    )
    assert (await say(toolbox, "read", caller, pattern="three", context=1)).splitlines()[1:] == [
        "3",
        "zebra zebra three",
    ]
    assert await say(toolbox, "read", caller, grep="zebra +four") == "[no line matches]"


async def test_what_a_search_shows_is_still_new(toolbox: Toolbox) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command="sleep 0.2; echo one; echo two", wait_s=0)
    await say(toolbox, "wait", caller, ids=["p1"], wait_for="nothing", wait_s=0)
    await say(toolbox, "read", caller, grep="one")
    assert "one\ntwo" in await say(toolbox, "wait", caller, ids=["p1"])


async def test_an_answer_is_bounded_and_its_marks_lead_to_every_line(toolbox: Toolbox) -> None:
    """Nothing twice, nothing left out: of a process the first ten, then the call for the rest of them."""
    caller = a_caller()
    for number in range(4):
        await say(toolbox, "run", caller, command=f"seq -f 'pager {number}-%g {'x' * 60}' 25", wait_s=30)
    shown: list[str] = []
    rest: set[str] = set()
    cursor: dict[str, str] = {}
    for _ in range(20):
        text = await say(toolbox, "read", caller, grep="pager", budget=1000, **cursor)
        assert len(text) < 1500
        lines = text.splitlines()
        shown += [line for line in lines if line.startswith("pager")]
        rest |= {
            found[1]
            for line in lines
            if (found := re.fullmatch(r'\[more lines match: read\(id="(p\d)", grep="pager"\)\]', line))
        }
        following = re.fullmatch(
            r'\[older output was not searched yet: read\(grep="pager", cursor="(.*)"\)\]', lines[-1]
        )
        if following is None:
            break
        cursor = {"cursor": following[1]}
    assert [re.sub(" x+", "", line) for line in shown] == [
        f"pager {number}-{line}" for number in (3, 2, 1, 0) for line in range(1, 11)
    ]
    assert rest == {"p1", "p2", "p3", "p4"}


async def test_a_project_is_searched_alone_and_all_of_them_where_that_is_asked_for(
    toolbox: Toolbox, engine: Engine
) -> None:
    caller = a_caller()
    here, there = _in("/here", caller), _in("/there", caller)
    await say(toolbox, "run", here, command="echo walrus here")
    await say(toolbox, "run", there, command="echo walrus there; seq -f 'walrus %g' 20")
    assert (await say(toolbox, "read", here, grep="walrus")).splitlines()[1:] == ["walrus here"]
    assert (await say(toolbox, "read", caller, grep="walrus")).startswith("[no line matches; in 2 processes ")
    text = await say(toolbox, "read", here, grep="walrus", all_projects=True)
    header, first, *_, mark, near, last = text.splitlines()
    (record,) = await engine.queries.list(ProcessFilter(principal=caller.principal, project="/there"))
    # A short id counts in its own project: what is of another one has a name that leads to it from here.
    assert header.startswith(f"[{record.process_id} exit 0, ")
    assert is_process_id(record.process_id)
    assert (first, last) == ("walrus there", "walrus here")
    assert near.startswith("[p1 exit 0, ")
    assert mark == f'[more lines match: read(id="{record.process_id}", grep="walrus")]'
    assert "walrus 20" in await say(toolbox, "read", here, id=record.process_id, grep="walrus")


async def test_no_other_principal_s_output_is_found_and_no_secret(toolbox: Toolbox) -> None:
    """The attacks: to ask for what belongs to another, with its place as a cursor, too, and for what is
    hidden.
    """
    caller, other = a_caller(), a_caller(scope=Scope.READ)
    token = "ghp_" + "aB3xY9kQ2mN7vR4tW8zL5cD1fG6hJ0pS3uE2"
    value = "correct horse battery"
    await say(
        toolbox,
        "run",
        caller,
        command=f'echo "key {token} here"; echo "pass $PASS here"; for n in 1 2 3; do echo plain $n; done',
        env_secrets={"PASS": value},
    )
    text = await say(toolbox, "read", caller, grep="here")
    assert f"\nkey ghp_{'*' * 36} here\npass {'*' * len(value)} here\n[2 secrets hidden]" in text
    for wanted in (
        token,
        token[4:10],
        value,
        value[:7],
        value[-7:],
        "ghp_[a-z]",
        "pass [^*]",
        "key ghp_[^*]",
    ):
        assert await say(toolbox, "read", caller, grep=wanted) == "[no line matches]", wanted
    assert await say(toolbox, "read", other, grep="here", all_projects=True) == "[no line matches]"
    more = await say(toolbox, "read", caller, grep="plain", budget=100)
    cursor = re.findall(r'cursor="(.*)"', more)[0]
    assert (
        await say(toolbox, "read", other, grep="plain", cursor=cursor, all_projects=True)
        == "[no line matches]"
    )


async def test_a_caller_that_may_only_read_searches_and_nonsense_is_refused(toolbox: Toolbox) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command="echo a word")
    reader = a_caller(principal=caller.principal, scope=Scope.READ)
    assert "a word" in await say(toolbox, "read", reader, grep="word", cursor="0")
    nobody = await answer(toolbox, "read", a_caller(scope=Scope.HELLO), {"grep": "word"})
    assert (nobody.is_error, "a word" in nobody.text) == (True, False)
    await refuses(toolbox, "read", {}, named="Pass id, or grep")
    await refuses(toolbox, "read", {"grep": "x", "tail": 5}, named="need an id")
    await refuses(toolbox, "read", {"grep": "x", "cursor": "12.0"}, named="No place of a search")


@pytest.mark.promise("S4.13.project")
async def test_a_look_that_finds_nothing_here_says_how_many_there_are_elsewhere(toolbox: Toolbox) -> None:
    """A host that works in another folder than yesterday finds its processes again."""
    base = a_caller()
    here, there = _in("/here", base), _in("/there", base)
    assert await say(toolbox, "list", here, all=True) == "[no processes]"
    assert await say(toolbox, "read", here, grep="zebra") == "[no line matches]"
    await say(toolbox, "run", there, command="echo zebra; sleep 300", wait_for="zebra")
    await say(toolbox, "run", there, command="echo zebra")
    assert await say(toolbox, "list", here) == (
        "[nothing is running; all=true includes ended ones; 1 in other projects: list(all_projects=true)]"
    )
    hint = "[no processes; 2 in other projects: list(all=true, all_projects=true)]"
    assert await say(toolbox, "list", here, all=True) == hint
    rows = (await say(toolbox, "list", here, all=True, all_projects=True)).splitlines()
    assert re.fullmatch(r"\[\w{26} exit 0, 0\.\d s ago\] 'echo zebra' in /there", rows[0]), rows
    text = await say(toolbox, "read", here, grep="zebra")
    assert text == "[no line matches; in 2 processes of other projects: all_projects=true]"
    assert "zebra" in await say(toolbox, "read", here, grep="zebra", all_projects=True)
    await say(toolbox, "stop", there, ids=["p1"])
