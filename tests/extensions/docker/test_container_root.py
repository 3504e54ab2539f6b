"""What a server says that cannot open a container's root folder: whether the container is gone, or the server
lacks something.
"""

import os
import resource
import socket
from pathlib import Path

import pytest

from outlive.core.errors import InvalidState
from outlive.core.layout import Layout
from outlive.extensions.docker import folders
from outlive.extensions.docker.containers import open_root

_NAME = "outlive-session-a"


def _nobody_listens(_path: str) -> socket.socket:
    raise ConnectionRefusedError


def _said(layout: Layout) -> InvalidState:
    with pytest.raises(InvalidState) as caught:
        open_root(layout, _NAME, connect=_nobody_listens)
    return caught.value


def test_only_a_container_that_is_gone_is_called_so(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    os.makedirs(layout.container(_NAME))
    assert _said(layout).code == "file_missing", "its first process was never known"
    folders.write_init(layout, _NAME, os.getpid())
    assert _said(layout).code == "file_missing", "its first process is another program by now"
    known = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, known[1]))
    try:
        refused = _said(layout)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, known)
    assert refused.code == "file_failed"
    assert "Too many open files" in refused.message
