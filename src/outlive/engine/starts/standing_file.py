"""The user's file of standing approvals (`StandingFile`): what a person has approved for always.

It lies beside the user's settings.

A server adds to it when a person says so; `outlive policy forget` and a text editor take away. Every use
reads it anew. What a standing approval is about is decided in `policy.standing_approvals`. Blocking: call it
in a thread.
"""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator

from outlive.core.command import StandingApproval
from outlive.core.documents import decode_json
from outlive.core.errors import ConfigInvalid, LimitExceeded
from outlive.kernel.files import write_whole

_MOST = 1000  # a person does not read more, and each start that is asked about compares with all of them
_MAX_BYTES = 1 << 22
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class StandingFile:
    """The standing approvals of the user that runs the server."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self) -> tuple[StandingApproval, ...]:
        """Return all of them, oldest first; none where the file is missing.

        Raises:
            ConfigInvalid: `config_invalid`: the file holds something else, or others may write to it.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._unusable(error.strerror or "it cannot be opened") from error
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise self._unusable("it is no file")
            if found.st_uid not in {0, os.geteuid()} or found.st_mode & _OTHERS:
                raise self._unusable("another user may write to it")
            content = file.read(_MAX_BYTES + 1)
        return self._decoded(content)

    def find(self, proposed: StandingApproval) -> StandingApproval | None:
        """Return the approval that was given for exactly this; None without one.

        Raises:
            ConfigInvalid: As `read`.
        """
        return next((one for one in self.read() if one == proposed), None)

    def add(self, standing: StandingApproval) -> None:
        """Add one; one that is there already stays as it is. On disk when this returns.

        Raises:
            ConfigInvalid: As `read`.
            LimitExceeded: `disk_full`, or there are too many.
        """

        def change(known: tuple[StandingApproval, ...]) -> tuple[StandingApproval, ...]:
            if standing in known:
                return known
            if len(known) >= _MOST:
                raise LimitExceeded(
                    "approval_limit",
                    f"{_MOST} commands are approved for always already.",
                    hint="`outlive policy forget` takes some back.",
                )
            return (*known, standing)

        self._change(change)

    def forget(self, digest: str) -> list[StandingApproval]:
        """Take back each whose digest begins so, and return them.

        Raises:
            ConfigInvalid: As `read`.
            LimitExceeded: `disk_full`.
        """
        gone: list[StandingApproval] = []

        def change(known: tuple[StandingApproval, ...]) -> tuple[StandingApproval, ...]:
            gone.extend(one for one in known if one.digest.startswith(digest))
            return tuple(one for one in known if not one.digest.startswith(digest))

        self._change(change)
        return gone

    def _change(self, change: Callable[[tuple[StandingApproval, ...]], tuple[StandingApproval, ...]]) -> None:
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            with self._locked():
                known = self.read()
                if (wanted := change(known)) != known:
                    members = {"standing_approvals": [one.encode() for one in wanted]}
                    write_whole(self.path, json.dumps(members, indent=2, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            text = f"{self.path} cannot be written: {error.strerror}."
            raise LimitExceeded("disk_full", text) from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the file's folder: several servers and a command line may change it at once."""
        fd = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _decoded(self, content: bytes) -> tuple[StandingApproval, ...]:
        try:
            document = decode_json(content)
        except ValueError:
            document = None
        members = document.get("standing_approvals") if isinstance(document, dict) else None
        found = [StandingApproval.decode(one) for one in members] if isinstance(members, list) else [None]
        if len(content) > _MAX_BYTES or any(one is None for one in found):
            raise self._unusable("it holds something else than standing approvals")
        return tuple(one for one in found if one is not None)

    def _unusable(self, why: str) -> ConfigInvalid:
        return ConfigInvalid(
            "config_invalid",
            f"{self.path}: {why}.",
            hint="Mend it or take it away; until then it approves nothing.",
        )
