"""`outlive config`: what a server started here and now would be set to, and where each setting comes from."""

import os
from collections.abc import Mapping

from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import JSON, STATE_DIR, switch, takes
from outlive.config import EffectiveSetting, effective_settings, resolve
from outlive.discovery.config_files import read_config_files
from outlive.kernel.project import working_folder


@takes(STATE_DIR, switch("--origin", about="Tell where each value came from, too."), JSON)
def show_settings(*, state_dir: str | None, origin: bool, as_json: bool) -> int:
    """Print every option of a server that is started here and now."""
    _show({} if state_dir is None else {"state_dir": state_dir}, with_origin=origin, as_json=as_json)
    return 0


def _show(flags: Mapping[str, str], *, with_origin: bool, as_json: bool) -> None:
    """Print every option with its value, and where that came from.

    Args:
        flags: Option name to text, as they would be given to `outlive serve`.
        with_origin: Name the place of each value, too.
        as_json: One line of JSON instead of a list.

    Raises:
        ConfigInvalid: A variable or a file says something that cannot be used.
    """
    folder = working_folder()
    files = read_config_files(os.environ, working_folder=folder, say=say)
    resolution = resolve(flags, os.environ, working_folder=folder, files=files)
    rows = effective_settings(resolution)
    if as_json:
        show_json({one.key: _document(one, with_origin=with_origin) for one in rows})
        return
    width = max(len(one.key) for one in rows)
    for one in rows:
        line = f"{one.key:<{width}} = {one.value}"
        show(f"{line}  # {one.source}: {one.place}" if with_origin else line)


def _document(one: EffectiveSetting, *, with_origin: bool) -> object:
    return {"value": one.value, "source": one.source, "place": one.place} if with_origin else one.value
