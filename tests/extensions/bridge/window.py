"""A window of VS Code as a process: `python -m tests.extensions.bridge.window URL` has an extension dial, and
says what it is asked.

One line of JSON for each connect and each command. Commands that last "for ever" are not answered.
"""

import asyncio
import functools
import itertools
import json
import sys

from tests.extensions.bridge.extension import DocumentExtension, Message, dialling


class _Telling(DocumentExtension):
    """An extension that says on stdout what it is asked."""

    def answers(self, message: Message) -> list[str]:
        """Say it, and answer."""
        frames = super().answers(message)
        if message["type"] != "execute":
            return frames
        print(json.dumps({"executed": self.executed[-1]}), flush=True)
        is_mute = "for ever" in message["data"]["command"]
        return [] if is_mute else frames


async def _run(url: str) -> None:
    extension = _Telling()
    async with dialling(url, extension):
        for told in itertools.count(1):
            print(json.dumps({"connected": told}), flush=True)
            await extension.until(functools.partial(_has_connected, extension, told + 1), patience_s=600)


def _has_connected(extension: DocumentExtension, times: int) -> bool:
    return extension.connections >= times


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1]))
