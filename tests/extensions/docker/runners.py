"""Programs that stand in a container where the runner should: compiled from a line of C."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def compile_runner(path: Path, source: str) -> str:
    """Compile a static program, and return its path."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        if os.environ.get("OUTLIVE_REQUIRE_DOCKER"):
            pytest.fail("a C compiler is missing")
        pytest.skip("a C compiler is missing")
    subprocess.run(
        [compiler, "-static", "-Os", "-x", "c", "-o", path, "-"],
        input=source.encode(),
        check=True,
        timeout=60,
    )
    return str(path)
