"""System calls by their numbers, as an attacker makes them: nothing of ours and nothing of the C library in
between.
"""

import ctypes
import errno
import os

Told = dict[str, object]

_COLUMN = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
_NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chroot": (161, 51),
    "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435), "delete_module": (176, 106),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "file_setattr": (469, 469), "finit_module": (313, 273),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "fsconfig": (431, 431), "fsetxattr": (190, 7), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "get_robust_list": (274, 100), "init_module": (175, 105), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "io_uring_setup": (425, 425), "ioctl": (16, 29), "ioperm": (173, -1), "iopl": (172, -1), "ioprio_set": (251, 30), "kcmp": (312, 272),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219), "kill": (62, 129), "lookup_dcookie": (212, 18),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "lremovexattr": (198, 15), "lsetxattr": (189, 6), "migrate_pages": (256, 238), "mount": (165, 40), "mount_setattr": (442, 442),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180), "mq_timedreceive": (243, 183),
    "mq_timedsend": (242, 182), "mq_unlink": (241, 181), "msgctl": (71, 187), "msgget": (68, 186), "msgrcv": (70, 188),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "msgsnd": (69, 189), "name_to_handle_at": (303, 264), "nfsservctl": (180, 42), "open_by_handle_at": (304, 265),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "prlimit64": (302, 261),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "ptrace": (101, 117), "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142), "removexattr": (197, 14),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "removexattrat": (466, 466), "renameat2": (316, 276), "request_key": (249, 218), "rt_sigqueueinfo": (129, 138),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "rt_tgsigqueueinfo": (297, 240), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "sched_setparam": (142, 118),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "sched_setscheduler": (144, 119), "semctl": (66, 191), "semget": (64, 190), "semop": (65, 193), "setdomainname": (171, 162),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "sethostname": (170, 161), "setns": (308, 268), "setpriority": (141, 140), "settimeofday": (164, 170), "setxattr": (188, 5),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "setxattrat": (463, 463), "shmat": (30, 196), "shmctl": (31, 195), "shmget": (29, 194), "swapoff": (168, 225), "swapon": (167, 224),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "syslog": (103, 116), "tgkill": (234, 131), "tkill": (200, 130), "truncate": (76, 45), "umount2": (166, 39), "unshare": (272, 97),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "userfaultfd": (323, 282), "vhangup": (153, 58),
}  # fmt: skip
_SYSCALL = ctypes.CDLL(None, use_errno=True).syscall
_SYSCALL.restype = ctypes.c_long
# What stands for a refusal before the kernel has looked at what is asked for.
_REFUSALS = ("EPERM", "EACCES", "ENOSYS")


class Missing(Exception):
    """There is nothing here to try it on; the text says what."""


class Kept(Exception):
    """It went well, and reached nothing outside; the text says how that was seen."""


def call(name: str, *arguments: object) -> int:
    """Make a system call; integers go whole, everything else as ctypes takes it.

    Raises:
        OSError: It failed.
    """
    number = _NUMBERS[name][_COLUMN]
    if number < 0:
        raise Missing(f"no {name} on this machine")
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(_SYSCALL(ctypes.c_long(number), *words))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def reach(name: str, *arguments: object) -> None:
    """Make a system call with arguments that are of no use: reached is whatever tells that they are not.

    Raises:
        PermissionError: It was refused as such.
    """
    try:
        call(name, *arguments)
    except OSError as error:
        if errno.errorcode.get(error.errno or 0) in _REFUSALS:
            raise
