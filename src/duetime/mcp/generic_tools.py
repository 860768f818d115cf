"""The tools for all kinds. They belong to no family, and serve the families that are switched on."""

from __future__ import annotations

from duetime.mcp.definitions import Tool
from duetime.mcp.edit_tool import edit_tool
from duetime.mcp.history import history_tool
from duetime.mcp.manage_tools import manage_tools
from duetime.mcp.mark_runs import mark_runs_tool
from duetime.mcp.run_now import run_now_tool
from duetime.mcp.served import Served
from duetime.mcp.status import status_tool
from duetime.mcp.stop_run import stop_run_tool
from duetime.mcp.upcoming import upcoming_tool


def generic_tools(served: Served) -> list[Tool]:
    reading = [upcoming_tool(served), history_tool(served), status_tool()]
    of_runs = [run_now_tool(served), stop_run_tool(served), mark_runs_tool(served)]
    return [*reading, *of_runs, edit_tool(served), *manage_tools(served)]
