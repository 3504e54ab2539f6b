"""The table of methods. How a request is run that names one is `connection`'s to see to."""

import functools
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from outlive.frontends.jsonrpc.context import BytesHandler, Concurrency, Context, Method, Result, table_of
from outlive.frontends.jsonrpc.controls import CONTROLS, write_bytes
from outlive.frontends.jsonrpc.files import FILES, write_piece
from outlive.frontends.jsonrpc.queries import QUERIES
from outlive.frontends.jsonrpc.starts import STARTS
from outlive.operations.files import FileWrite
from outlive.operations.table import all_operations
from outlive.protocols.jsonrpc.params import ProcessParams


async def _carry_out(name: str, context: Context, params: msgspec.Struct, label: str | None) -> Result:
    shape = all_operations()[name].request
    if shape is not None and type(params) is not shape:  # the tolerant one
        params = shape(**msgspec.structs.asdict(params))
    return Result(await context.operations.carry_out(name, params, context.owner(label)))


def _tolerant(shape: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return a shape that takes and ignores unknown members, as every method does (promise S0.3)."""
    if not shape.__struct_config__.forbid_unknown_fields:
        return shape
    return msgspec.defstruct(
        shape.__name__, (), bases=(shape,), kw_only=True, frozen=True, forbid_unknown_fields=False
    )


@functools.cache
def methods() -> Mapping[str, Method]:
    """Return all methods by their names; made at the first call, which imports extensions' operations."""
    # The operations that every door answers alike need nothing of this one's own.
    alike = table_of(
        *(
            Method(
                one.name,
                _tolerant(one.request),
                one.answer,
                functools.partial(_carry_out, one.name),
                Concurrency.IN_ORDER if one.pace == "brief" else Concurrency.LONG,
            )
            for one in all_operations().values()
            if one.request is not None and one.answer is not None
        )
    )
    return MappingProxyType(STARTS | CONTROLS | QUERIES | alike | FILES)


# The methods that take bytes behind a line of JSON, each with what it takes then, and what does it.
WITH_BYTES: Mapping[str, tuple[type[msgspec.Struct], BytesHandler]] = MappingProxyType(
    {"write": (ProcessParams, write_bytes), "file_write": (FileWrite, write_piece)}
)
