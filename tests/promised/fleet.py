"""The promises about many machines."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "L.place": (
        "A command that says what it needs runs on a machine that has it free, labels, neighbours "
        "and spread included; where none has, it waits in its turn, or is refused if it is not to "
        "wait."
    ),
    "L.count": "No machine is given more than it has, also where several servers share it.",
    "L.once": (
        "A killed server, and a node that is away, cost a command that waits or is placed neither "
        "its turn nor a second start."
    ),
    "L.gpus": "A command that needs GPUs is told its own by CUDA_VISIBLE_DEVICES, also after a restart.",
    "L.unfit": "What no known machine could ever run waits, and is named.",
    "L.nodes": (
        "Nodes are added, changed, drained, resumed and removed while the server runs, and stay so; "
        "what runs there goes on."
    ),
    "L.nodes.wall": (
        "Only administrators outside of what was started here change nodes; tokens of nodes are in "
        "no answer and in no file that others read."
    ),
}
