"""Programs as the file system might tell of them, for tests of rules."""

from outlive.policy.patterns import ProgramFile

LS = ProgramFile(paths=("/usr/bin/ls",), identity=(1, 10), is_own=True)
OTHER_LS = ProgramFile(paths=("/tmp/ls",), identity=(1, 11))
VI = ProgramFile(
    paths=("/usr/bin/vi", "/etc/alternatives/vi", "/usr/bin/vim.basic"), identity=(1, 20), is_own=True
)
VIM = ProgramFile(paths=("/usr/bin/vim", "/usr/bin/vim.basic"), identity=(1, 20), is_own=True)
BUSYBOX = ProgramFile(paths=("/bin/ls", "/bin/busybox"), identity=(1, 30), is_own=True)
