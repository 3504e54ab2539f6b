"""What answers a call of the lean tools before the end: a question, a text, silence, the time.

And what it then shows.
"""

import asyncio
import re
import shlex
import sys
from dataclasses import replace

import pytest

from outlive.config import Settings
from outlive.core.identity import short_name
from outlive.core.lifecycle import Cause
from outlive.engine import Engine
from outlive.frontends.mcp.tools import Caller, Toolbox, waits
from outlive.frontends.mcp.tools.waits import WaitBounds, patience_of
from tests.mcp_tools.calling import a_caller, answer, live_process, newest_process, say, seen, short_id
from tests.support.processes import Gate

_SOON_S = 10  # a third of what the calls below ask to wait: what takes longer was not answered early
_REPL = f"{shlex.quote(sys.executable)} -q"


async def _soon(toolbox: Toolbox, name: str, caller: Caller, /, **arguments: object) -> str:
    """Call a tool that is allowed to wait for 30 s and has to answer well before."""
    async with asyncio.timeout(_SOON_S):
        return await say(toolbox, name, caller, **arguments, wait_s=30)


async def _repl(toolbox: Toolbox, caller: Caller) -> str:
    env = {"PYTHON_BASIC_REPL": "1", "PYTHONSTARTUP": None, "TERM": "dumb"}
    return await _soon(toolbox, "run", caller, command=_REPL, pty=True, env=env)


@pytest.mark.promise("S4.13.waits")
async def test_a_prompt_answers_at_once(toolbox: Toolbox) -> None:
    """Known from the kernel: no wait_for is needed, and the next call is named."""
    caller = a_caller()
    lines = (await _repl(toolbox, caller)).splitlines()
    assert lines[0] == "[p1 waiting for input]"
    assert lines[1].startswith(">>>")
    assert 'send(id="p1"' in lines[-1]
    await say(toolbox, "stop", caller, ids=["p1"], grace=0)


@pytest.mark.promise("S4.13.waits")
async def test_a_password_prompt_is_an_answer_that_names_a_person(toolbox: Toolbox, engine: Engine) -> None:
    """By the id that the command line knows in every folder."""
    caller = a_caller()
    line = "read -rs -p 'Password: ' x; echo; echo got ${#x}"
    text = await _soon(toolbox, "run", caller, command=line, pty=True)
    assert text.startswith("[p1 waiting for a password]\nPassword:")
    process = await newest_process(engine, caller)
    assert f"outlive answer {short_name(process.process_id)}`" in text
    text = await _soon(toolbox, "send", caller, id="p1", text="1234\n")
    assert text.startswith("[exit 0]")
    assert text.endswith("got 4")


@pytest.mark.thorough
@pytest.mark.promise("S4.13.waits")
async def test_a_password_that_a_person_was_asked_for_is_waited_for(toolbox: Toolbox, engine: Engine) -> None:
    """The same question is no news, and a model that gets it again at once asks again at once."""
    caller = a_caller()
    await _soon(toolbox, "run", caller, command="read -rs x; echo got ${#x}", pty=True)
    process = await newest_process(engine, caller)
    async with asyncio.timeout(_SOON_S):
        waiting = asyncio.create_task(say(toolbox, "wait", caller, ids=["p1"], wait_s=30))
        assert not (await asyncio.wait([waiting], timeout=1))[0]
        await engine.controls.write(process, b"1234\n")  # the person, at another door
        text = await waiting
    assert text.startswith("[p1 exit 0]")
    assert text.endswith("got 4")


@pytest.mark.promise("S4.13.waits")
async def test_the_end_of_the_input_is_answered_with_what_follows_from_it(toolbox: Toolbox) -> None:
    caller = a_caller()
    await _soon(toolbox, "run", caller, command="cat; echo over", pty=True)
    text = await _soon(toolbox, "send", caller, id="p1", eof=True)
    assert text.startswith("[exit 0]")
    assert text.endswith("over")


@pytest.mark.promise("S4.13.answers")
async def test_a_mark_without_a_call_stands_below_the_id_that_it_needs(toolbox: Toolbox) -> None:
    caller = a_caller()
    text = await say(toolbox, "run", caller, command="yes | head -n 500; echo ready")
    assert text.startswith("[p1 exit 0]")
    mark = re.search(r'equal lines: cursor="(\S+)" raw=true', text)
    assert mark is not None
    rest = await say(toolbox, "read", caller, id="p1", cursor=mark[1], raw=True)
    assert rest.count("y\n") > 400


@pytest.mark.thorough
@pytest.mark.promise("S4.13.waits", "S4.13.shown")
async def test_the_answer_of_a_slow_line_is_in_the_answer_of_its_send(toolbox: Toolbox) -> None:
    """A send waits for the next prompt, not for the echo of what it has typed."""
    caller = a_caller()
    await _repl(toolbox, caller)
    text = await _soon(toolbox, "send", caller, id="p1", text="import time; time.sleep(2); print(6*7)\n")
    lines = text.splitlines()
    assert lines[0] == "[p1 waiting for input]"
    assert "42" in lines
    assert any(line.startswith(">>>") for line in lines)
    text = await _soon(toolbox, "send", caller, id="p1", text="exit(3)\n")
    assert text.startswith("[exit 3]")
    assert "42" not in text


@pytest.mark.thorough
@pytest.mark.promise("S4.13.shown")
async def test_sends_lose_nothing_and_show_nothing_twice(toolbox: Toolbox) -> None:
    """Numbers that no line says: each is in exactly one answer, in order, also what came between two
    calls.
    """
    caller = a_caller()
    texts = [await _repl(toolbox, caller)]
    for number in range(5):
        line = f"print({number} + 999 + 1)\n"
        if number == 2:  # behind the answer of this send comes more, which the next call shows
            line = (
                "import threading; threading.Timer(0.3, lambda: print('bet'+'ween', flush=True)).start()\n"
                + line
            )
        texts.append(await _soon(toolbox, "send", caller, id="p1", text=line))
    texts.append(await _soon(toolbox, "send", caller, id="p1", text="import time; time.sleep(0.5)\n"))
    texts.append(await _soon(toolbox, "send", caller, id="p1", keys=["ctrl-d"]))
    shown = "\n".join(texts)
    assert re.findall(r"\b100[0-4]\b", shown) == ["1000", "1001", "1002", "1003", "1004"]
    assert shown.count("between") == 1


@pytest.mark.promise("S4.13.shown")
async def test_a_wait_shows_what_was_not_shown_once(toolbox: Toolbox, engine: Engine, gate: Gate) -> None:
    caller = a_caller()
    line = f"echo one; echo two; {gate.wait}; echo three; exit 4"
    text = await _soon(toolbox, "run", caller, command=line, wait_for={"text": "two"})
    assert text.endswith("\none\ntwo")
    assert re.fullmatch(
        r"\[p1 running, [^\]]+\](\n\[[^\n]*)?", await say(toolbox, "wait", caller, ids="p1", wait_s=0)
    )
    gate.open()
    assert await _soon(toolbox, "wait", caller, ids=["p1"]) == "[p1 exit 4]\nthree"
    # A conversation may have been shortened meanwhile: an end that was told has an output that was shown.
    before = '[its output was shown before: read(id="p1", cursor="0") shows it again]'
    assert await _soon(toolbox, "wait", caller, ids=["p1"]) == f"[p1 exit 4]\n{before}"
    assert (await say(toolbox, "read", caller, id="p1")) == f"[exit 4]\n{before}"
    # What is asked for by place is shown however often; it marks nothing as shown.
    for _ in range(2):
        assert await say(toolbox, "read", caller, id="p1", cursor="0") == "[exit 4]\none\ntwo\nthree"
        assert await say(toolbox, "read", caller, id="p1", tail=1) == "[exit 4]\nthree"
    other = replace(caller, connection_id="another session")
    assert await _soon(toolbox, "wait", other, ids=["p1"]) == "[p1 exit 4]\none\ntwo\nthree"
    assert await newest_process(engine, caller) is not None


@pytest.mark.promise("S4.13.shown")
async def test_what_a_search_has_skipped_is_still_new(toolbox: Toolbox, gate: Gate) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command=f"{gate.wait}; seq 5", wait_s=0)
    gate.open()
    await _soon(toolbox, "wait", caller, ids=["p1"])
    session = replace(caller, connection_id="second")
    for part in ({"tail": 1}, {"grep": "3"}, {"cursor": "0", "end": "4"}):
        await say(toolbox, "read", session, id="p1", **part)
    assert await say(toolbox, "read", session, id="p1") == "[exit 0]\n1\n2\n3\n4\n5"


@pytest.mark.promise("S4.13.shown")
async def test_a_stop_shows_the_last_words(toolbox: Toolbox, engine: Engine) -> None:
    caller = a_caller()
    line = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    await _soon(toolbox, "run", caller, command=line, wait_for={"text": "up"})
    lines = (await say(toolbox, "stop", caller, ids=["p1"])).splitlines()
    assert (lines[0], lines[-1]) == ("[p1 stopped by you]", "bye")
    assert "up" not in lines
    assert (await newest_process(engine, caller)).record.cause is Cause.CANCEL


@pytest.mark.promise("S4.13.waits")
@pytest.mark.parametrize("mode", ["any", "all"])
async def test_a_question_of_one_answers_a_wait_for_several(toolbox: Toolbox, gate: Gate, mode: str) -> None:
    """Without an answer it would never end: neither mode waits for that."""
    caller = a_caller()
    await say(toolbox, "run", caller, command=gate.wait, wait_s=0)
    await say(toolbox, "run", caller, command=f"{gate.wait}; read -p 'Go on? ' x", pty=True, wait_s=0)
    call = asyncio.create_task(_soon(toolbox, "wait", caller, ids=["p2"], mode=mode))
    third = "read -p 'Sure? ' x; exit 5"
    begun = await say(toolbox, "run", caller, command=third, pty=True, wait_s=0)
    text = await _soon(toolbox, "wait", caller, ids=["p1", "p3"], mode=mode)
    assert "[p1 running, " in text
    assert "[p3 waiting for input]\n" in text
    assert (begun + text).count("Sure?") == 1
    assert 'send(id="p3"' in text
    gate.open()
    assert (await call).startswith("[p2 waiting for input]\nGo on?")
    text = await _soon(toolbox, "send", caller, id="p3", text="y\n")
    assert text.startswith("[exit 5]")
    await say(toolbox, "stop", caller, ids=["p1", "p2"], grace=0)


@pytest.mark.promise("S4.13.waits")
async def test_a_wait_for_all_answers_when_the_last_one_has_ended(toolbox: Toolbox, gate: Gate) -> None:
    caller = a_caller()
    await say(toolbox, "run", caller, command="echo quick", wait_s=5)
    await say(toolbox, "run", caller, command=f"{gate.wait}; echo slow", wait_s=0)
    call = asyncio.create_task(_soon(toolbox, "wait", caller, ids=["p1", "p2"]))
    await asyncio.sleep(0.3)
    assert not call.done()
    gate.open()
    assert await call == "[p1 exit 0]\n[p2 exit 0]\nslow"


@pytest.mark.promise("S4.13.waits")
async def test_silence_counts_from_the_first_output(toolbox: Toolbox, gate: Gate) -> None:
    """A program that has said nothing yet has not fallen silent."""
    caller = a_caller()
    call = asyncio.create_task(
        _soon(
            toolbox,
            "run",
            caller,
            command=f"{gate.wait}; echo up; exec sleep 300",
            wait_for={"idle_s": 0.2},
        )
    )
    await asyncio.sleep(1)
    assert not call.done()
    gate.open()
    assert re.match(r"\[p1 running, [^\]]+\]\nup", await call)
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.waits")
async def test_a_wait_can_be_for_a_text_that_comes_later(toolbox: Toolbox, gate: Gate) -> None:
    """Also one that was shown in part; and one that never comes is over with the process."""
    caller = a_caller()
    line = f"printf 'rea'; {gate.wait}; echo dy; sleep 300"
    await _soon(toolbox, "run", caller, command=line, wait_for={"idle_s": 0.1})
    call = asyncio.create_task(_soon(toolbox, "wait", caller, ids=["p1"], wait_for="dy"))
    await asyncio.sleep(0.2)
    assert not call.done()
    gate.open()
    assert (await call).partition("\n")[2].startswith("dy")
    await say(toolbox, "stop", caller, ids=["p1"])
    text = await _soon(toolbox, "wait", caller, ids=["p1"], wait_for="never")
    assert text.startswith("[p1 stopped by you, 'never' did not come]\n[its output was shown before")


@pytest.mark.promise("S4.13.waits")
@pytest.mark.parametrize(
    ("client", "usual_s", "most_s"),
    [
        ("codex-mcp-client", 280, 280),
        ("cursor-vscode", 280, 280),
        ("Visual Studio Code", 280, 280),
        ("gemini-cli-mcp-client", 580, 580),
        ("goose", 280, 280),
        ("claude-ai", 220, 220),
        ("cline", 45, 50),
        ("mcp", 45, 50),
    ],
)
def test_a_host_with_a_known_limit_is_answered_before_it(client: str, usual_s: float, most_s: float) -> None:
    caller = replace(a_caller(), client=client.lower())
    assert patience_of(caller, has_progress=True, is_patient=False) == WaitBounds(usual_s, most_s)
    # An operator with less patience than the default has a reason.
    short = patience_of(caller, has_progress=True, is_patient=False, usual_s=3)
    assert short == WaitBounds(3, most_s)


@pytest.mark.promise("S4.13.waits")
async def test_a_wait_that_is_cut_says_so(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "_MOST_WAIT_S", 0.2)
    caller = a_caller()
    text = await say(toolbox, "run", caller, command="sleep 300", wait_s=200)
    assert re.match(r"\[p1 running, [^,]+, wait_s is at most 0.2 at this host\]\n", text)
    text = await say(toolbox, "wait", caller, ids=["p1"], wait_s=200)
    assert "wait_s is at most 0.2 at this host" in text
    assert "at most" not in await say(toolbox, "wait", caller, ids=["p1"], wait_s=0.1)
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.waits")
@pytest.mark.parametrize(
    ("client", "most"), [("unheard-of", "50"), ("codex", "280"), ("claude-code", "1500")]
)
async def test_a_schema_says_how_long_its_host_lets_a_call_wait(
    toolbox: Toolbox, client: str, most: str
) -> None:
    caller = replace(a_caller(), client=client, asked_tools="lean")
    tools = {tool["name"]: tool for tool in toolbox.definitions(caller)}
    for name in ("run", "wait"):
        assert f"At most {most}." in str(tools[name]["inputSchema"])


@pytest.mark.promise("S4.13.waits")
def test_a_call_without_progress_waits_at_most_50_seconds_whatever_it_asks() -> None:
    caller = replace(a_caller(), client="unheard-of")
    patience = patience_of(caller, has_progress=False, is_patient=True)
    assert [patience.seconds(asked) for asked in (None, 5, 50, 51, 3600)] == [45, 5, 50, 50, 50]
    assert patience_of(caller, has_progress=True, is_patient=False) == patience
    assert patience_of(caller, has_progress=True, is_patient=True) == WaitBounds(1500, 1500)
    known = replace(caller, client="claude-code")
    assert patience_of(known, has_progress=True, is_patient=False) == WaitBounds(1500, 1500)
    assert patience_of(known, has_progress=False, is_patient=False) == WaitBounds(280, 280)
    short = patience_of(caller, has_progress=False, is_patient=False, usual_s=3)
    assert [short.seconds(asked) for asked in (None, 20, 80)] == [3, 20, 50]
    long = patience_of(caller, has_progress=False, is_patient=False, usual_s=300)
    assert long.seconds(None) == 50
    raw = patience_of(replace(caller, is_raw=True), has_progress=False, is_patient=False)
    assert raw.seconds(600) == 600


@pytest.mark.thorough
@pytest.mark.promise("S4.13.waits")
async def test_the_most_is_kept_by_run_wait_and_send_and_what_goes_on_is_named(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "_MOST_WAIT_S", 0.3)
    caller = a_caller()
    text = await _soon(toolbox, "run", caller, command="sleep 300")
    assert text.startswith("[p1 running, ")
    assert 'wait(ids=["p1"])' in text
    assert (await _soon(toolbox, "wait", caller, ids=["p1"])).startswith("[p1 running, ")
    text = await _soon(toolbox, "run", caller, command="exec sleep 300", stdin="pipe")
    text = await _soon(toolbox, "send", caller, id="p2", text="x\n")
    assert text.startswith("[p2 running, ")
    raw = replace(caller, is_raw=True)
    assert await _soon(toolbox, "run", raw, command="sleep 1; echo whole") == "[exit 0]\nwhole"
    await say(toolbox, "stop", caller, ids=["p1", "p2"])


@pytest.mark.promise("S4.13.waits")
async def test_a_call_without_a_wish_waits_as_long_as_the_setting_says(engine: Engine) -> None:
    toolbox = Toolbox(engine, Settings(wait_s=0.1))
    caller = a_caller()
    async with asyncio.timeout(_SOON_S):
        text = await say(toolbox, "run", caller, command="sleep 300")
    assert short_id(text) == "p1"
    await say(toolbox, "stop", caller, ids=["p1"])


@pytest.mark.promise("S4.13.waits", "M.progress")
async def test_progress_comes_in_every_period_with_the_newest_line(
    toolbox: Toolbox, engine: Engine, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while nothing is written: what restarts a host's clock is the message."""
    monkeypatch.setattr(waits, "_REPORT_S", 0.05)
    caller, texts, more = a_caller(), [""], asyncio.Event()

    async def hear(text: str) -> None:
        texts.append(text)
        more.set()

    async def until(word: str) -> None:
        while word not in texts[-1]:
            more.clear()
            await more.wait()

    line = (
        f"until [ -e '{gate.path}.1' ]; do sleep 0.02; done; printf '\\033[32mfirst\\033[0m\\n\\n'; "
        f"{gate.wait}"
    )
    call = asyncio.create_task(answer(toolbox, "run", caller, {"command": line}, progress=hear))
    async with asyncio.timeout(_SOON_S):
        await until("no output yet")
        gate.path.with_name(gate.path.name + ".1").touch()
        await until("first")
        count = len(texts)
        while len(texts) < count + 3:
            more.clear()
            await more.wait()
        assert re.fullmatch(r"\d+ s: first", texts[-1]), texts[-1]
        await seen(await newest_process(engine, caller), "first")
        gate.open()
        outcome = await call
    assert outcome.text == "[exit 0]\nfirst\n"
    count = len(texts)
    await asyncio.sleep(0.2)
    assert len(texts) == count


@pytest.mark.thorough
@pytest.mark.promise("S4.13.waits")
async def test_a_wait_for_a_text_in_a_flood_ends_at_its_time(toolbox: Toolbox, engine: Engine) -> None:
    """`yes` writes faster than a text can be looked for: the wait must not run behind it for ever."""
    caller = a_caller()
    try:
        async with asyncio.timeout(4 * _SOON_S):  # the machine is busy with the flood
            text = await say(toolbox, "run", caller, command="yes", wait_for="needle", wait_s=1)
    finally:
        await engine.controls.cancel(await live_process(engine, caller), grace_s=0)
    assert text.startswith("[p1 running")
