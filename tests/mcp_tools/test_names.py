"""Names of processes in the tools for models: a name is an id there, as at every door."""

import pytest

from outlive.frontends.mcp.tools import Toolbox
from tests.mcp_tools.calling import a_caller, answer, refuses, say, short_id
from tests.support.processes import Gate


@pytest.mark.promise("W.names", "W.names.unique")
async def test_a_name_is_an_id_in_every_tool(toolbox: Toolbox, gate: Gate) -> None:
    """And says no more in the schema: a model that wants one has heard of it from a person."""
    caller = a_caller()
    started = await say(toolbox, "run", caller, command=f"echo one; {gate.wait}", name="web", wait_s=0)
    assert short_id(started) in await say(toolbox, "wait", caller, ids=["web"], wait_s=0)
    taken = await answer(toolbox, "run", caller, {"command": "true", "name": "web"})
    assert (taken.is_error, "is the name of" in taken.text, "`stop`" in taken.text) == (True, True, True)
    await refuses(toolbox, "run", {"command": "true", "name": "p7"}, named="cannot be called")
    wanted = {"command": gate.wait, "name": "web", "replace": True, "wait_s": 0}
    again = short_id(await say(toolbox, "run", caller, **wanted))
    assert again != short_id(started)
    assert again in await say(toolbox, "stop", caller, ids=["@last"])
    assert short_id(await say(toolbox, "wait", caller, ids=["web"], wait_s=0)) == again
    await refuses(toolbox, "read", {"id": "nothing"}, named="No process of this project")
    listed = next(one for one in toolbox.definitions(caller) if one["name"] == "run")
    assert "name" not in listed["inputSchema"]["properties"]  # type: ignore[index] # a schema
