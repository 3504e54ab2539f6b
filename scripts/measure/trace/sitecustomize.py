"""Records which functions of the product run while a file called `on` is there: used by `start_trace.py`
only.

START_TRACE names the folder of `on`; each process writes its calls into `PID.json` there once `on` is gone.
The keeper's processes start without site packages and with a small environment: what coverage does for them
(`../sitecustomize.py`) is done here, too. Looking for the file at every call is slow, and nothing else is: no
thread, no signal, no hook in the product.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import FrameType

_FOLDER = os.environ.get("START_TRACE", "")
_PRODUCT = f"{os.sep}src{os.sep}outlive{os.sep}"
_calls: list[tuple[str, str]] = []


def _note(frame: FrameType, event: str, _argument: object) -> None:
    if event != "call" or _PRODUCT not in frame.f_code.co_filename:
        return
    if os.access(f"{_FOLDER}/on", os.F_OK):
        _calls.append((frame.f_code.co_filename.rpartition(_PRODUCT)[2], frame.f_code.co_qualname))
    elif _calls:
        kept = list(_calls)
        _calls.clear()
        Path(f"{_FOLDER}/{os.getpid()}.json").write_text(json.dumps(kept), encoding="utf-8")


if _FOLDER:
    # Beside the sources: the command line heeds it only where outlive itself is found by it (`cli.main`).
    here = os.path.dirname(__file__)
    os.environ["PYTHONPATH"] = f"{here}:{os.path.realpath(os.path.join(here, '../../../src'))}"
    found = importlib.util.spec_from_file_location(
        "_keeper_environment", os.path.join(os.path.dirname(__file__), "..", "sitecustomize.py")
    )
    if found is not None and found.loader is not None:
        found.loader.exec_module(importlib.util.module_from_spec(found))
    sys.setprofile(_note)
