"""A due prompt whose agent uses a tool of the user's own MCP server, with a real server and a real worker."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.model_server import ModelServer, call, say
from tests.support.user_server import CALLS, TOKEN, user_server
from tests.support.woken import installation, result_of

TOOL_AGENT = str(Path(__file__).parents[2] / "support" / "tool_agent.py")
SETTINGS = """
[mcp_servers.builds]
url = "{url}"
headers = {{ Authorization = "Bearer ${{TOKEN_OF_BUILDS}}" }}
[agents.script]
command = {command}
servers = ["builds"]
tools = ["builds.latest"]
[agents.builtin]
type = "builtin"
servers = ["builds"]
tools = ["builds.latest"]
"""


@pytest.mark.parametrize("agent", ["script", pytest.param("builtin", marks=pytest.mark.later)])
def test_a_due_prompt_uses_a_tool_of_the_users_own_server(agent: str, tmp_path: Path) -> None:
    """The whole way, with a refusal: the run says which tool it was denied."""
    script = [call("builds_latest", branch="main"), say("It is green.")]
    more = [call("builds_latest", branch="main"), call("builds_delete", branch="main"), say("I may not.")]
    with user_server() as builds:
        settings = SETTINGS.format(url=builds.url, command=json.dumps([sys.executable, "-P", TOOL_AGENT]))
        with ModelServer(
            lambda request: (more if "delete" in request.said[0] else script)[len(request.turns)]
        ) as model:
            env = {**model.environment, "TOKEN_OF_BUILDS": TOKEN}
            with installation(tmp_path, settings, env=env) as there, there.agent("ada") as ada:
                first, both = (
                    ada.knows("schedule", prompt=text, at="now", agent=agent)["id"]
                    for text in (CALLS.splitlines()[0], CALLS)
                )
                done, denied = there.ended(first), there.ended(both)
    assert done.status == "completed" and "green" in result_of(done)["text"], done.error
    assert denied.status == "failed" and builds.deleted == []
    assert denied.error == "it was denied builds.delete, so it did not do all it was asked for"
    assert result_of(denied)["denied"] == ["builds.delete"]
    for run in (done, denied):
        assert TOKEN not in (run.result or "") and builds.url not in (run.result or "")
