"""What an approval of a waiting command is about."""

import pytest

from outlive.core.identity import ProcessId
from outlive.core.values import replace
from outlive.store.queue_store import WaitingCommand

_COMMAND = WaitingCommand(ProcessId("01m7ybywps7gsyjzmq1eandhcn"), b"spec", b"script", {"A": "b"})


@pytest.mark.promise("P.exactly")
@pytest.mark.parametrize(
    "other",
    [
        replace(_COMMAND, process_id=ProcessId("01m7ybywps7gsyjzmq1eandhcm")),
        replace(_COMMAND, spec=b"spec2"),
        replace(_COMMAND, script=b""),
        replace(_COMMAND, spec=b"specs", script=b"cript"),
        replace(_COMMAND, secrets={"A": "c"}),
        replace(_COMMAND, secrets={"LD_PRELOAD": "b"}),
    ],
)
def test_a_command_of_which_anything_is_another_has_another_digest(other: WaitingCommand) -> None:
    assert other.digest != _COMMAND.digest
    assert replace(_COMMAND).digest == _COMMAND.digest
