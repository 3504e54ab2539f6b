"""From JSON, or members that were read already, to a checked request; one sentence for what is wrong. Pure."""

from typing import TypeVar

import msgspec

from outlive.core.errors import InvalidRequest

_Request = TypeVar("_Request", bound=msgspec.Struct)


def decode_request(raw: bytes, shape: type[_Request]) -> _Request:
    """Return the request that a JSON text holds.

    Raises:
        InvalidRequest: A member is missing, has the wrong type or an impossible value; the message names it.
    """
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.DecodeError as error:  # a ValidationError is one, too
        raise _refusal(error) from None


def convert_request(members: object, shape: type[_Request]) -> _Request:
    """Return the request that decoded JSON makes.

    Raises:
        InvalidRequest: As `decode_request`.
    """
    try:
        return msgspec.convert(members, shape)
    except (msgspec.ValidationError, ValueError) as error:
        raise _refusal(error) from None


def _refusal(error: Exception) -> InvalidRequest:
    """Turn "Expected `str`, got `int` - at `$.command`" into "command: expected str, got int."."""
    text, _, path = str(error).partition(" - at ")
    text = text.replace("`", "")
    place = path.strip("`").removeprefix("$").removeprefix(".")
    if place:
        text = f"{place}: {text[:1].lower()}{text[1:]}"
    details = {"parameter": place} if place else {}
    return InvalidRequest("invalid_params", f"{text}.", details=details)
