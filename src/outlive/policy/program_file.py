"""What the file system said about a program, as a value: `ProgramFile`. Pure; `engine.programs` asks."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFile:
    """The file behind a program's name.

    `paths` begin with where it was found (its folder without links), go on with every link that it leads to, and end
    with the real file; one path where there is no link. `identity` is device and inode: two names of one file have
    the same. `is_own`: the server's own PATH leads to this very file by its name alone.
    """

    paths: tuple[str, ...]
    identity: tuple[int, int]
    is_own: bool = False
    names: frozenset[str] = field(init=False)  # every name that it has on the way to the real file

    def __post_init__(self) -> None:
        """Take the names out of the paths, once."""
        object.__setattr__(self, "names", frozenset(path.rpartition("/")[2] for path in self.paths))

    @property
    def found(self) -> str:
        """Where it was found."""
        return self.paths[0]

    @property
    def real(self) -> str:
        """The file itself."""
        return self.paths[-1]
