"""Entry of the keeper's processes: `python -S -P -s <this file> guardian|supervisor|offers STATE_DIR
[flags]`.

The file is run by its path, so neither site packages nor the environment decide what is imported.
"""

import gc
import os
import sys


def _main() -> None:
    gc.disable()  # imports make no garbage; supervisor and guardian go on without (`supervisor.main`)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(os.path.dirname(here)))
    role, state_dir = sys.argv[1], sys.argv[2]
    if role != "offers":
        _claim(state_dir)
    if role == "guardian":
        from outlive.keeper.guardian.guardian import main  # noqa: PLC0415 - each role loads only its own modules

        main(state_dir, is_first="--first" in sys.argv)
    elif role == "offers":
        from outlive.keeper.common.spawn import take_handed_program  # noqa: PLC0415 - as above
        from outlive.keeper.sandbox.capabilities import main as try_out  # noqa: PLC0415 - as above

        try_out(state_dir, take_handed_program())
    else:
        from outlive.keeper.supervisor.supervisor import main as supervise  # noqa: PLC0415 - as above

        supervise(state_dir)


def _claim(state_dir: str) -> None:
    """Make sure that the folder is of our format before anything is written into it.

    End where it cannot be used.
    """
    from outlive.core.errors import ConfigInvalid  # noqa: PLC0415 - after sys.path was set
    from outlive.core.layout import Layout  # noqa: PLC0415 - as above
    from outlive.kernel.folder_identity import claim_folder  # noqa: PLC0415 - as above

    try:
        claim_folder(Layout(state_dir))
    except (ConfigInvalid, OSError) as error:
        sys.exit(f"outlive keeper: {error}")


if __name__ == "__main__":
    _main()
