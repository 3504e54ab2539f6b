"""The request of a start as a value of the program."""

from outlive.operations.requests import decode_request
from outlive.protocols.jsonrpc.params import ExecuteParams
from outlive.protocols.rest.requests import StartRequest


def test_a_request_as_text_shows_no_value_of_a_secret() -> None:
    raw = b'{"command": "true", "env_secrets": {"KEY": "hunter2-of-the-caller"}}'
    for shape in (ExecuteParams, StartRequest):
        request = decode_request(raw, shape)
        assert request.env_secrets == {"KEY": "hunter2-of-the-caller"}
        assert "hunter2" not in f"{request!r} {request}"
