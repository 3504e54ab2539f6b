"""One copy from its words to its result: `CopyRun` opens both ends, and opens them again where a connection
was lost.
"""

import contextlib
import os
from collections.abc import Callable

from outlive.client.channel import ClientConnection
from outlive.client.files.copier import Copier, CopyTally
from outlive.client.files.ends import FileEnd, LocalEnd, RemoteEnd
from outlive.client.link import Link, Links
from outlive.client.results import Copied, LeftOut
from outlive.client.runtime import ConnectionLost, Runtime
from outlive.core.errors import InvalidState, OutliveError
from outlive.core.file_words import FileWord, name_bytes, parse_file_word, shown_name, target_of
from outlive.core.values import dataclass
from outlive.discovery.config_paths import own_files
from outlive.discovery.state_folder import layout_of
from outlive.files.root import FileRoot
from outlive.files.wall import Wall
from outlive.kernel.project import working_folder

_TIMES = 5  # that a copy is opened anew which the server does not know any more: it was started again


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAsked:
    """What a caller of `copy` wants."""

    source: FileWord
    target: FileWord
    project: str | None
    compare: bool
    progress: Callable[[int], None]


def asked_copy(
    source: str | bytes | os.PathLike[str],
    target: str | bytes | os.PathLike[str],
    *,
    project: str | None,
    compare: bool,
    progress: Callable[[int], None],
) -> CopyAsked:
    """Return what the words of a caller mean.

    Raises:
        InvalidRequest: They mean nothing.
    """
    return CopyAsked(
        source=parse_file_word(os.fsencode(source)),
        target=parse_file_word(os.fsencode(target)),
        project=project,
        compare=compare,
        progress=progress,
    )


class CopyRun:
    """Copies once, over as many connections as it takes."""

    def __init__(self, links: Links, world: Runtime, state_dir: str | os.PathLike[str] | None) -> None:
        self._links = links
        self._world = world
        self._state_dir = None if state_dir is None else os.fspath(state_dir)

    async def run(self, asked: CopyAsked) -> Copied:
        """Copy (see `AsyncFiles.copy`)."""
        link = self._links.new()  # of its own: no other request waits behind its pieces
        try:
            for attempt in range(_TIMES):
                try:
                    return await self._attempt(link, asked)
                except InvalidState as error:
                    if error.code != "copy_unknown" or attempt == _TIMES - 1:
                        raise
        finally:
            await self._links.drop(link)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, link: Link, asked: CopyAsked) -> Copied:
        """Copy over as many connections as it takes."""
        is_far = asked.source.place is not None or asked.target.place is not None
        while True:
            channel = await link.channel() if is_far else None
            try:
                copied = await self._over(channel, asked)
            except ConnectionLost:
                if channel is None:
                    raise AssertionError("only a connection is lost") from None
                await link.lose(channel)  # raises when the server stays away
            else:
                link.succeed()
                return copied

    async def _over(self, channel: ClientConnection | None, asked: CopyAsked) -> Copied:
        source, tally = asked.source, CopyTally()
        async with contextlib.AsyncExitStack() as stack:
            from_end = await self._opened(stack, channel, source, asked, writes=False)
            if from_end.entry is None:
                raise InvalidState("file_missing", f"There is no {source}.")
            is_folder = from_end.entry["kind"] == "folder"
            target = target_of(source, asked.target, is_folder=is_folder)
            to_end = await self._opened(stack, channel, target, asked, writes=True)
            if not is_folder and to_end.entry is not None and to_end.entry["kind"] == "folder":
                # A folder by that name takes a file inside, now and every time later.
                target = target_of(source, target.below(""), is_folder=False)
                to_end = await self._opened(stack, channel, target, asked, writes=True)
            await Copier(from_end, to_end, tally, compares=asked.compare, progress=asked.progress).run()
        return Copied(
            source=str(source),
            target=str(target),
            files=tally.files,
            folders=tally.folders,
            links=tally.links,
            kept=tally.kept,
            sent_bytes=tally.sent_bytes,
            left_out=tuple(LeftOut(name=shown_name(name), error=error) for name, error in tally.left_out),
        )

    async def _opened(
        self,
        stack: contextlib.AsyncExitStack,
        channel: ClientConnection | None,
        word: FileWord,
        asked: CopyAsked,
        *,
        writes: bool,
    ) -> FileEnd:
        """Open an end, which is closed with the stack."""
        end: FileEnd
        if word.place is None:
            end = await self._world.aside(lambda: self._here(word, writes=writes))
        elif channel is None:
            raise AssertionError("a place is reached over a connection")
        else:
            end = await RemoteEnd.open(channel, word, write=writes, project=asked.project)
        stack.push_async_callback(_closed, end)
        return end

    def _here(self, word: FileWord, *, writes: bool) -> LocalEnd:
        path = os.path.abspath(os.path.expanduser(name_bytes(word.path)))
        own = own_files(os.environ, working_folder=working_folder())
        root = FileRoot(path, Wall([layout_of(self._state_dir).root], own), writes=writes)
        return LocalEnd(root, self._world, root.look(""))


async def _closed(end: FileEnd) -> None:
    """Close an end; one whose connection or server is gone closes there by itself."""
    with contextlib.suppress(OutliveError, ConnectionLost):
        await end.close()
