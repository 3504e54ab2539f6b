"""Programs that talk to a person, through a terminal: they are seen to wait, answered, interrupted, stopped,
drawn.
"""

import asyncio
import re
import sys

import pytest

from outlive.core.errors import InvalidRequest
from tests.engine.engines import ME
from tests.terminals.shells import Desk, needs

pytestmark = pytest.mark.thorough


@pytest.mark.promise("S3.6", "S3.7", "S3.6.asks")
@pytest.mark.parametrize(
    ("command", "waiting"),
    [
        ("read -p 'Name: ' X; echo \"<$X>\"", "input"),
        ("read -s -p 'Password: ' X; echo; echo \"<$X>\"", "password"),
        (
            "sh -c 'stty -echo; printf Password:; read X; stty echo; echo; echo \"<$X>\"' </dev/tty",
            "password",
        ),
    ],
)
async def test_a_question_is_seen_and_answered(desk: Desk, command: str, waiting: str) -> None:
    terminal = await desk.open()
    async with asyncio.timeout(10):  # long before its patience is at an end
        gave = await desk.run(terminal, command, wait_s=60)
    assert (gave.is_complete, gave.waiting) == (False, waiting)
    await desk.type(terminal, "answer\n")
    text = await desk.until(terminal, lambda text: text.state == "ready")
    assert text.exit_code == 0
    assert (await desk.read(terminal, cursor=gave.cursor)).text.count("<answer>") == 1
    if waiting == "password":
        assert text.text.count("answer") == 1  # what was typed was not shown


async def test_what_reads_from_a_pipe_waits_for_nobody(desk: Desk) -> None:
    terminal = await desk.open()
    gave = await desk.run(terminal, "(sleep 3; echo late) | cat", wait_s=2.5)
    assert (gave.is_complete, gave.waiting) == (False, "none")


@pytest.mark.promise("S3.6.asks")
async def test_a_python_is_talked_to(desk: Desk) -> None:
    terminal = await desk.open()
    gave = await desk.run(terminal, f"{sys.executable} -q", wait_s=60)
    assert (gave.is_complete, gave.waiting) == (False, "input")
    await desk.type(terminal, "print(6 * 7)\n")
    await desk.until(terminal, lambda text: "\n42\n" in text.text)
    await desk.type(terminal, "raise SystemExit(3)\n")
    text = await desk.until(terminal, lambda text: text.state == "ready")
    assert text.exit_code == 3


async def test_ctrl_c_interrupts_and_the_shell_goes_on(desk: Desk) -> None:
    terminal = await desk.open()
    await desk.run(terminal, "sleep 1000", wait_s=0)
    await asyncio.sleep(0.5)  # until it is sleep that has the terminal, and no longer the shell
    await desk.type(terminal, "\x03")
    text = await desk.until(terminal, lambda text: text.state == "ready")
    assert text.exit_code == 130
    assert (await desk.run(terminal, "echo on")).output == "on\n"


async def test_jobs_are_stopped_and_go_on(desk: Desk) -> None:
    terminal = await desk.open()
    await desk.run(terminal, "sh -c 'sleep 1; echo woken; exit 9'", wait_s=0)
    await asyncio.sleep(0.5)
    await desk.type(terminal, "\x1a")
    text = await desk.until(terminal, lambda text: text.state == "ready")
    assert text.exit_code == 148  # 128 + SIGTSTP
    assert "Stopped" in (await desk.run(terminal, "jobs")).output
    gave = await desk.run(terminal, "fg")
    assert gave.output.endswith("woken\n")
    assert gave.exit_code == 9


@pytest.mark.promise("S3.6.forms")
async def test_an_editor_is_drawn_as_it_looks(desk: Desk) -> None:
    vim = needs("vim")
    terminal = await desk.open(rows=12, cols=40)
    await desk.run(terminal, "printf 'first line\\nsecond line\\n' >file.txt; clear; echo before")
    gave = await desk.run(terminal, f"{vim} -u NONE -N file.txt", wait_s=60)
    assert (gave.is_complete, gave.waiting) == (False, "input")
    seen = await desk.until(terminal, lambda text: "second line" in text.text, "screen")
    assert seen.text.split("\n")[:3] == ["first line", "second line", "~"]
    await desk.type(terminal, "GAthird\x1b")
    await desk.until(terminal, lambda text: "second linethird" in text.text, "screen")
    await desk.host.resize(terminal, 6, 60, ME)
    seen = await desk.until(
        terminal, lambda text: text.text.split("\n")[:3] == ["first line", "second linethird", "~"], "screen"
    )
    assert len(seen.text.split("\n")) <= 6
    await desk.type(terminal, ":wq\r")
    seen = await desk.until(terminal, lambda text: text.state == "ready", "screen")
    assert "before" in seen.text  # the screen that vim was lent is given back
    assert "\n~" not in seen.text
    assert (await desk.run(terminal, "cat file.txt")).output == "first line\nsecond linethird\n"


async def test_a_pager_is_seen_to_wait_and_left(desk: Desk) -> None:
    less = needs("less")
    terminal = await desk.open(rows=10, cols=40)
    gave = await desk.run(terminal, f"seq 1 1000 | {less}", wait_s=60)
    assert (gave.is_complete, gave.waiting) == (False, "input")
    seen = await desk.read(terminal, "screen")
    assert seen.text.split("\n")[:9] == [str(number) for number in range(1, 10)]
    await desk.type(terminal, "G")
    await desk.until(terminal, lambda text: "1000" in text.text, "screen")
    await desk.type(terminal, "q")
    assert (await desk.until(terminal, lambda text: text.state == "ready")).exit_code == 0


async def test_a_resize_reaches_the_shell(desk: Desk) -> None:
    terminal = await desk.open(rows=30, cols=100)
    assert (await desk.run(terminal, "stty size")).output == "30 100\n"
    await desk.host.resize(terminal, 50, 132, ME)
    assert (await desk.run(terminal, "stty size; printf '%0.s=' $(seq 1 120); echo")).output.startswith(
        "50 132\n"
    )
    await desk.run(terminal, "exit")
    closed = await desk.read(terminal, "screen")  # as it was seen last
    assert "=" * 120 in closed.text.split("\n")


@pytest.mark.promise("S3.6", "S3.6.forms")
async def test_reading_goes_on_where_it_ended_in_every_form(desk: Desk) -> None:
    terminal = await desk.open()
    begin = (await desk.read(terminal)).cursor
    await desk.run(terminal, "seq 1 3000")
    for form in ("raw", "clean"):
        cursor, texts = begin, []
        while True:
            page = await desk.read(terminal, form, cursor=cursor, budget=1000)
            texts.append(page.text)
            assert len(page.text) <= 1000
            if not page.has_more:
                break
            assert page.cursor != cursor
            cursor = page.cursor
        whole = re.sub(r"\r|\x1b\[\?2004.|\x1b\]133;[^\x07]*\x07", "", "".join(texts))
        numbers = [line for line in whole.split("\n") if line.isdigit()]
        assert numbers == [str(number) for number in range(1, 3001)], (form, texts[0][:300])
    newest = await desk.read(terminal, budget=100)
    assert "3000\n" in newest.text
    assert len(newest.text) <= 100
    with pytest.raises(InvalidRequest):
        await desk.read(terminal, cursor="999999999.0")
    with pytest.raises(InvalidRequest):
        await desk.read(terminal, "screen", cursor=begin)


async def test_a_progress_bar_is_its_end(desk: Desk) -> None:
    terminal = await desk.open()
    await desk.run(terminal, "for i in $(seq 0 100); do printf '\\r%3d%% [%s]' $i =====; done; echo")
    text = (await desk.read(terminal)).text
    assert "100% [=====]" in text
    assert " 50%" not in text
