"""The files that send a code to the server (`OpenerFiles`): in the state folder, for its user alone, one for
each code.

A browser is started with the file's path. So no code is in the words of any program, which every user of the
machine can read, and none in an address, which stays in a browser's history. Blocking: call it in a thread.
Which codes count is `page_codes`' business.
"""

import contextlib
import logging
import os
from collections.abc import Collection
from html import escape

from outlive.core.layout import Layout
from outlive.frontends.web.page_files import page_text
from outlive.kernel.files import write_whole
from outlive.server.access.web_pages import CODE_FORM

_logger = logging.getLogger(__name__)
_NAME_LETTERS = 32  # of the hash: 128 bits name one code
_SUFFIX = ".html"


class OpenerFiles:
    """The folder of these files; the server alone writes there."""

    def __init__(self, layout: Layout) -> None:
        self._folder = layout.ui

    def write(self, digest: str, code: str, address: str) -> str:
        """Write the file of a code, whose form goes to the server's `address`, and return its path.

        Raises:
            OSError: The disk takes nothing.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder, mode=0o700)
        text = page_text("opener.html").format(
            action=escape(f"{address}{CODE_FORM}", quote=True), code=escape(code, quote=True)
        )
        path = self._path(digest)
        write_whole(path, text.encode())  # made with the mode 0600
        return path

    def keep_only(self, digests: Collection[str]) -> None:
        """Remove the files of all other codes, those of an earlier server included.

        What cannot be removed is logged, and tried again the next time: such a file is worth nothing, since
        its code counts no more.
        """
        kept = {os.path.basename(self._path(one)) for one in digests}
        try:
            found = set(os.listdir(self._folder))
        except FileNotFoundError:
            return
        except OSError as error:
            _logger.warning("the openers of the page cannot be listed", extra={"reason": error.strerror})
            return
        for name in found - kept:
            try:
                os.unlink(f"{self._folder}/{name}")
            except FileNotFoundError:
                pass
            except OSError as error:
                _logger.warning("an opener of the page cannot be removed", extra={"reason": error.strerror})

    def _path(self, digest: str) -> str:
        return f"{self._folder}/{digest[:_NAME_LETTERS]}{_SUFFIX}"
