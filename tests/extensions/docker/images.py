"""Images with what `docker import` cannot set: another machine, a user, other bytes under the same name."""

import hashlib
import io
import json
import tarfile

import aiodocker


async def load_image(
    docker: aiodocker.Docker, name: str, *, note: str, architecture: str = "amd64", user: str = ""
) -> None:
    """Give the daemon an image that holds one file, `note`."""
    layer = _tar({"note": note.encode()})
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"User": user},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_sha256(layer)}"]},
    }
    raw = json.dumps(config).encode()
    manifest = [{"Config": f"{_sha256(raw)}.json", "RepoTags": [f"{name}:latest"], "Layers": ["layer.tar"]}]
    archive = _tar(
        {f"{_sha256(raw)}.json": raw, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    )
    await docker.images.import_image(io.BytesIO(archive))


def _tar(files: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return archive.getvalue()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
