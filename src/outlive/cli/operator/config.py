"""`outlive config`: what a server started here and now would be set to, and where each setting comes from."""

import os

from outlive.cli.output import Answer, say
from outlive.cli.parameters import JSON, STATE_DIR, switch, takes
from outlive.config import EffectiveSetting, effective_settings, resolve
from outlive.discovery.config_files import read_config_files
from outlive.kernel.project import working_folder


@takes(STATE_DIR, switch("--origin", about="Tell where each value came from, too."), JSON)
def show_settings(*, state_dir: str | None, origin: bool) -> Answer:
    """Print every option of a server that is started here and now with its value, and where that came from.

    Raises:
        ConfigInvalid: A variable or a file says something that cannot be used.
    """
    flags = {} if state_dir is None else {"state_dir": state_dir}
    folder = working_folder()
    files = read_config_files(os.environ, working_folder=folder, say=say)
    rows = effective_settings(resolve(flags, os.environ, working_folder=folder, files=files))
    width = max(len(one.key) for one in rows)
    places = [f"  # {one.source}: {one.place}" if origin else "" for one in rows]
    return Answer(
        {one.key: _document(one, with_origin=origin) for one in rows},
        [f"{one.key:<{width}} = {one.value}{place}" for one, place in zip(rows, places, strict=True)],
    )


def _document(one: EffectiveSetting, *, with_origin: bool) -> object:
    return {"value": one.value, "source": one.source, "place": one.place} if with_origin else one.value
