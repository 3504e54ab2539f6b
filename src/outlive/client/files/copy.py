"""One copy from its words to its result: `Copy` opens both ends, and opens them again where a connection was
lost.
"""

import contextlib
import os
from collections.abc import Callable

from outlive.client.channel import ClientConnection
from outlive.client.files.copier import Copier
from outlive.client.files.ends import FileEnd, LocalEnd, RemoteEnd
from outlive.client.files.words import FileWord, target_of
from outlive.client.link import Links
from outlive.client.results import Copied, LeftOut
from outlive.client.runtime import ConnectionLost, Runtime
from outlive.core.errors import InvalidState, OutliveError
from outlive.core.file_words import name_bytes, shown_name
from outlive.core.values import dataclass
from outlive.discovery.config_paths import own_files
from outlive.discovery.state_folder import layout_of
from outlive.files.denied import DeniedPaths
from outlive.files.root import FileRoot
from outlive.kernel.project import working_folder

_TIMES = 5  # that a copy is opened anew which the server does not know any more: it was started again


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy that a caller wants, over as many connections as it takes.

    `state_dir` is the folder of this machine's server, None for the usual one.
    """

    source: FileWord
    target: FileWord
    project: str | None
    compare: bool
    progress: Callable[[int], None]
    links: Links
    world: Runtime
    state_dir: str | None

    async def run(self) -> Copied:
        """Copy (see `AsyncFiles.copy`)."""
        link = self.links.new()  # of its own: no other request waits behind its pieces
        is_far = self.source.place is not None or self.target.place is not None
        channel, attempts = None, 1
        try:
            while True:
                try:
                    channel = await link.channel() if is_far else None
                    return await self._over(channel)
                except ConnectionLost:
                    if channel is None:
                        raise AssertionError("only a connection is lost") from None
                    await link.lose(channel)  # raises when the server stays away
                except InvalidState as error:
                    if error.code != "copy_unknown" or attempts == _TIMES:
                        raise
                    attempts += 1
        finally:
            await self.links.drop(link)

    async def _over(self, channel: ClientConnection | None) -> Copied:
        source = self.source
        async with contextlib.AsyncExitStack() as stack:
            from_end = await self._opened(stack, channel, source, writes=False)
            if from_end.entry is None:
                raise InvalidState("file_missing", f"There is no {source}.")
            is_folder = from_end.entry["kind"] == "folder"
            target = target_of(source, self.target, is_folder=is_folder)
            to_end = await self._opened(stack, channel, target, writes=True)
            if not is_folder and to_end.entry is not None and to_end.entry["kind"] == "folder":
                # A folder by that name takes a file inside, now and every time later.
                target = target_of(source, target.below(""), is_folder=False)
                to_end = await self._opened(stack, channel, target, writes=True)
            copier = Copier(from_end, to_end, compares=self.compare, progress=self.progress)
            await copier.run(from_end.entry)
        left_out = tuple(LeftOut(name=shown_name(name), error=error) for name, error in copier.left_out)
        return Copied(source=str(source), target=str(target), left_out=left_out, **copier.counts)

    async def _opened(
        self,
        stack: contextlib.AsyncExitStack,
        channel: ClientConnection | None,
        word: FileWord,
        *,
        writes: bool,
    ) -> FileEnd:
        """Open an end, which is closed with the stack."""
        end: FileEnd
        if word.place is None:
            end = await self.world.aside(lambda: self._here(word, writes=writes))
        elif channel is None:
            raise AssertionError("a place is reached over a connection")
        else:
            end = await RemoteEnd.open(channel, word, write=writes, project=self.project)
        stack.push_async_callback(_closed, end)
        return end

    def _here(self, word: FileWord, *, writes: bool) -> LocalEnd:
        path = os.path.abspath(os.path.expanduser(name_bytes(word.path)))
        own = own_files(os.environ, working_folder=working_folder())
        root = FileRoot(path, DeniedPaths([layout_of(self.state_dir).root, *own]), writes=writes)
        return LocalEnd(root=root, world=self.world, **root.opened())


async def _closed(end: FileEnd) -> None:
    """Close an end; one whose connection or server is gone closes there by itself."""
    with contextlib.suppress(OutliveError, ConnectionLost):
        await end.close()
