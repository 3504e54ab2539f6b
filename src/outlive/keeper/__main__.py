"""Entry of the keeper's processes: `python -S -P -s <this file> guardian|supervisor|offers STATE_DIR [flags]`.

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
    if role == "guardian":
        from outlive.keeper.guardian.guardian import main  # noqa: PLC0415 - each role loads only its own modules

        main(state_dir, is_first="--first" in sys.argv)
    elif role == "offers":
        from outlive.keeper.sandbox.capabilities import main as try_out  # noqa: PLC0415 - as above

        try_out(state_dir)
    else:
        from outlive.keeper.supervisor.supervisor import main as supervise  # noqa: PLC0415 - as above

        supervise(state_dir)


if __name__ == "__main__":
    _main()
