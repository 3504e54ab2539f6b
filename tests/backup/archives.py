"""Archives as an attacker would write them: any members, behind a header that is right."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

from outlive.store.backup.contents import HEADER, MANIFEST, Contents, FileList, StoredFile, encode_header

ID = "01m8arfxkh5b83tznvhe3j2pyk"


def a_member(name: str, content: bytes = b"", **changes: object) -> tuple[tarfile.TarInfo, bytes]:
    """Return a member as `outlive backup` writes them, with any attribute changed."""
    member = tarfile.TarInfo(name)
    member.mode, member.size = 0o600, len(content)
    for attribute, value in changes.items():
        setattr(member, attribute, value)
    return member, content


def write_archive(
    path: Path,
    *members: tuple[tarfile.TarInfo, bytes],
    listed: Callable[[list[StoredFile]], list[StoredFile]] = lambda files: files,
    behind: tuple[tarfile.TarInfo, bytes] | None = None,
    has_manifest: bool = True,
) -> Path:
    """Write an archive whose manifest is right for the members, unless `listed` changes it."""
    files = [
        StoredFile(name=member.name, size=len(content), sha256=hashlib.sha256(content).hexdigest())
        for member, content in members
    ]
    counted = FileList()
    for one in listed(files):
        counted.add(one)
    header = {"created": "2026-01-01T00:00:00Z", "outlive": "1"}
    contents = Contents.of(counted, header, running=0, has_keys=True)
    everything = [a_member(HEADER, encode_header(outlive="1", created=contents.created)), *members]
    if has_manifest:
        everything.append(a_member(MANIFEST, contents.encode()))
    if behind is not None:
        everything.append(behind)
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for member, content in everything:
            tar.addfile(member, io.BytesIO(content))
    return path
