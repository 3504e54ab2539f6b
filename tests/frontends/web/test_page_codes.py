"""A code counts once, for a minute: the rule by itself, and at the door with a clock that the test moves."""

import asyncio
import errno
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Router

from outlive.core.events import AuditEvent, Event
from outlive.core.layout import Layout
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.frontends.web.door import CODES_PATH, LIFE_S, PageCodes, WebFrontend
from outlive.policy.access import Access, Scope, Token, find_token
from outlive.server.access.web_pages import CODE_FORM
from outlive.server.http.front_page import JsonDocument
from outlive.store.token_file import TokenFile
from tests.attacks.raw_http import RawReply, raw_request
from tests.frontends.serving import admitted, served

_USER = Access(principal="uid:1", scope=Scope.ADMIN, is_socket_user=True)


@pytest.mark.promise("U.code")
@given(
    st.lists(st.tuples(st.sampled_from(["add", "take"]), st.integers(0, 5), st.floats(0, 40)), max_size=40)
)
def test_a_code_is_taken_once_and_only_within_its_minute(steps: list[tuple[str, int, float]]) -> None:
    codes, now = PageCodes(), 0.0
    ends: dict[str, float] = {}
    for deed, number, passed_s in steps:
        now += passed_s
        code = str(number)
        if deed == "add":
            codes.add(code, Scope.READ, now=now)
            ends[code] = now + LIFE_S
        else:
            counts = ends.pop(code, 0.0) > now
            assert (codes.take(code, now=now) is not None) is counts
        codes.forget_ended(now=now)
        assert len(codes.digests) == sum(end > now for end in ends.values())


def test_an_unused_code_makes_room_for_the_newest_ones() -> None:
    codes = PageCodes()
    for number in range(100):
        codes.add(str(number), Scope.READ, now=0.0)
    assert codes.take("0", now=1.0) is None
    assert codes.take("99", now=1.0) is not None


@dataclass
class _Clock:
    now: float = 1000.0
    step_s: float = 0.0

    def __call__(self) -> float:
        self.now += self.step_s
        return self.now


@dataclass
class _Door:
    port: int
    layout: Layout
    clock: _Clock
    entered: list[Event] = field(default_factory=list)

    async def ask(self, line: str, *headers: str, body: bytes = b"") -> RawReply:
        return await asyncio.to_thread(raw_request, self.port, f"{line} HTTP/1.1", *headers, body=body)

    async def code(self, scope: str = "admin") -> str:
        made = await self.ask(f"POST {CODES_PATH}", body=f'{{"scope": "{scope}"}}'.encode())
        assert made.status == 201, made
        text = await asyncio.to_thread(Path(made.json["file"]).read_text)
        found = re.search(r'name="code" value="([^"]+)"', text)
        assert found is not None
        return found[1]

    async def send(self, code: str, *headers: str) -> RawReply:
        return await self.ask(f"POST {CODE_FORM}", "Origin: null", *headers, body=f"code={code}".encode())

    async def tokens(self) -> tuple[Token, ...]:
        return await asyncio.to_thread(TokenFile(self.layout).read)

    def files(self) -> list[str]:
        folder = Path(self.layout.ui)
        return sorted(one.name for one in folder.iterdir()) if folder.exists() else []


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[_Door]:
    """The frontend for a caller that the guard has let in as the user of this machine."""
    layout, clock = Layout(str(tmp_path)), _Clock()
    entered: list[Event] = []
    events = EventPublisher()
    events.subscribe(entered.append)
    web = WebFrontend(
        layout,
        address="http://127.0.0.1:8181",
        front=JsonDocument(dict),
        events=events,
        clock=clock,
    )
    async with web, served(admitted(Router(web.routes()), _USER), tmp_path) as at:
        yield _Door(at.port, layout, clock, entered)


@pytest.mark.promise("U.code", "U.code.file")
async def test_a_code_becomes_a_token_once(door: _Door) -> None:
    code = await door.code("run")
    (name,) = door.files()
    assert code not in name
    assert (Path(door.layout.ui) / name).stat().st_mode & 0o777 == 0o600
    opened = await door.send(code)
    assert opened.status == 200
    assert opened.headers["cache-control"] == "no-store"
    secret = re.search(r'content="(olv_[^"]+)"', opened.body.decode())
    assert secret is not None
    now = datetime.now(UTC)
    token = find_token(await door.tokens(), secret[1], now=now)
    assert token is not None
    assert (token.name, token.scope, token.acts_as_user) == ("page-1", Scope.RUN, True)
    assert token.expires_at is not None
    assert timedelta(hours=11) < token.expires_at - now <= timedelta(hours=12)
    assert door.files() == []
    again = await door.send(code)
    assert (again.status, b"olv_" in again.body) == (403, False)
    assert [one.what for one in door.entered if isinstance(one, AuditEvent)] == ["ui_code", "token_create"]
    assert all(code not in repr(one) and secret[1] not in repr(one) for one in door.entered)


@pytest.mark.promise("U.code")
async def test_a_code_counts_no_more_after_sixty_seconds(door: _Door) -> None:
    early, late = await door.code(), await door.code()
    door.clock.now += 59.9
    assert (await door.send(early)).status == 200
    door.clock.now += 0.1
    assert (await door.send(late)).status == 403
    assert [one.name for one in await door.tokens()] == ["page-1"]


@pytest.mark.promise("U.code.file")
async def test_files_of_a_killed_server_go_with_the_next_code(door: _Door) -> None:
    def leave() -> None:
        folder = Path(door.layout.ui)
        folder.mkdir()
        (folder / "left-by-a-server-that-was-killed.html").touch()

    await asyncio.to_thread(leave)
    await door.code()
    assert len(door.files()) == 1
    assert "killed" not in door.files()[0]


@pytest.mark.promise("U.code.file")
async def test_a_file_is_removed_when_its_minute_is_over(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    # Each look at the clock finds that nearly a minute has passed.
    clock = _Clock(step_s=LIFE_S - 0.05)
    web = WebFrontend(
        layout, address="http://x", front=JsonDocument(dict), events=EventPublisher(), clock=clock
    )
    async with web, served(admitted(Router(web.routes()), _USER), tmp_path) as at:
        door = _Door(at.port, layout, clock)
        made = await door.ask(f"POST {CODES_PATH}")
        assert await asyncio.to_thread(_is_gone, Path(made.json["file"]))


def _is_gone(path: Path) -> bool:
    deadline = time.monotonic() + 5
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not path.exists()


@pytest.mark.promise("U.code.file")
async def test_files_go_with_the_server(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    web = WebFrontend(layout, address="http://x", front=JsonDocument(dict), events=EventPublisher())
    async with web, served(admitted(Router(web.routes()), _USER), tmp_path) as at:
        door = _Door(at.port, layout, _Clock())
        await door.code()
        assert len(door.files()) == 1
    assert door.files() == []


@pytest.mark.promise("U.code", "U.code.file")
async def test_a_file_that_cannot_be_removed_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    layout, clock = Layout(str(tmp_path)), _Clock(step_s=LIFE_S - 0.05)
    # No unlink takes a folder, as none takes a file of a disk that is only read by now.
    stuck = Path(layout.ui) / "stuck.html"
    await asyncio.to_thread(stuck.mkdir, parents=True)
    web = WebFrontend(
        layout, address="http://x", front=JsonDocument(dict), events=EventPublisher(), clock=clock
    )
    async with web, served(admitted(Router(web.routes()), _USER), tmp_path) as at:
        door = _Door(at.port, layout, clock)
        for _ in range(2):  # what removes files in the background goes on, too
            made = await door.ask(f"POST {CODES_PATH}")
            assert made.status == 201
            assert await asyncio.to_thread(_is_gone, Path(made.json["file"]))
        clock.step_s = 0.0
        assert (await door.send(await door.code())).status == 200
    assert door.files() == ["stuck.html"]
    assert "an opener of the page cannot be removed" in caplog.text


@pytest.mark.promise("U.code", "U.code.file")
async def test_a_folder_of_files_that_cannot_be_listed_ends_nothing(
    door: _Door, caplog: pytest.LogCaptureFixture
) -> None:
    def replace_folder() -> None:
        shutil.rmtree(door.layout.ui)
        Path(door.layout.ui).touch()

    code = await door.code()
    await asyncio.to_thread(replace_folder)
    assert (await door.send(code)).status == 200
    assert "the openers of the page cannot be listed" in caplog.text


@pytest.mark.promise("U.code")
async def test_an_answer_that_cannot_be_made_leaves_no_token(
    door: _Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    def have_no_descriptor(name: str) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)

    code = await door.code()
    monkeypatch.setattr("outlive.frontends.web.door.page_text", have_no_descriptor)
    assert (await door.send(code)).status == 500
    assert await door.tokens() == ()


@pytest.mark.promise("U.code")
async def test_tokens_of_pages_that_have_expired_are_forgotten_with_the_next_one(door: _Door) -> None:
    file = TokenFile(door.layout)
    past = datetime.now(UTC) - timedelta(hours=1)
    await asyncio.to_thread(file.create_for_page, Scope.RUN, now=past, expires_at=past)
    await asyncio.to_thread(file.create, "page-7", Scope.RUN, now=past, expires_at=past)
    await door.send(await door.code())
    # The other one acts for itself: its processes are its own, and no other token gets its name.
    assert [one.name for one in await door.tokens()] == ["page-7", "page-1"]


@pytest.mark.promise("U.code.form")
@pytest.mark.parametrize(
    "headers",
    [
        ("Sec-Fetch-Mode: cors",),
        ("Sec-Fetch-Dest: iframe", "Sec-Fetch-Mode: navigate"),
        ("Sec-Fetch-Dest: empty",),
        ("Origin: http://127.0.0.1:5173",),
    ],
)
async def test_what_no_file_sends_takes_no_code(door: _Door, headers: tuple[str, ...]) -> None:
    """The guard refuses these before; the door does not rely on that."""
    code = await door.code()
    assert (await door.send(code, *headers)).status == 403
    assert (await door.send(code)).status == 200, "it was not used up"


@pytest.mark.promise("U.code")
@pytest.mark.parametrize("body", [b"", b"code=", b"other=1", b"code=\xff", b"code=a" * 2000, b"&" * 50])
async def test_a_form_without_a_code_opens_nothing(door: _Door, body: bytes) -> None:
    answer = await door.ask(f"POST {CODE_FORM}", "Origin: null", body=body)
    assert (answer.status, await door.tokens()) == (403, ())


@pytest.mark.promise("U.files")
async def test_codes_and_forms_are_asked_for_by_post_alone(door: _Door) -> None:
    for path in (CODES_PATH, CODE_FORM):
        answer = await door.ask(f"GET {path}")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
    answer = await door.ask("DELETE /ui/app.js")
    assert answer.status == 405


@pytest.mark.promise("U.code.who")
@pytest.mark.parametrize(
    "access",
    [
        Access(principal="uid:1", scope=Scope.ADMIN),
        Access(principal="uid:1", scope=Scope.RUN),
        Access(principal="token:x", scope=Scope.READ),
        Access(principal="page", scope=Scope.HELLO),
        Access(principal="uid:1", scope=Scope.ADMIN, inside="01k9zq3v8d4t6r2m5x7b1n0c9f"),
    ],
)
async def test_only_the_user_at_the_unix_socket_gets_a_code(tmp_path: Path, access: Access) -> None:
    layout = Layout(str(tmp_path))
    web = WebFrontend(layout, address="http://x", front=JsonDocument(dict), events=EventPublisher())
    async with web, served(admitted(Router(web.routes()), access), tmp_path) as at:
        door = _Door(at.port, layout, _Clock())
        refused = await door.ask(f"POST {CODES_PATH}")
        assert (refused.status, refused.json["error"]) == (403, "scope_missing")
        assert door.files() == []


@pytest.mark.promise("U.code.who")
async def test_a_page_gets_no_wider_scope_than_is_known(door: _Door) -> None:
    for body in (b'{"scope": "hello"}', b'{"scope": "bridge"}', b'{"scope": 4}', b"no json", b'{"more": 1}'):
        assert (await door.ask(f"POST {CODES_PATH}", body=body)).status == 422
