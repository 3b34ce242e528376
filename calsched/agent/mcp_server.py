"""The agent methods as a Model Context Protocol server over stdio (extra ``agent``: the official ``mcp`` package)."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from calsched.agent.answers import answer
from calsched.agent.methods import METHODS
from calsched.app import App
from calsched.errors import InvalidInput, Problem

INSTRUCTIONS = (
    "Register and control schedules. Preview a declaration first and create it with the digest that the preview"
    " printed. These tools never run a task: a separate owner (`calsched serve`) does."
)


def server(app: App) -> Any:
    """An ``mcp`` low-level server with one tool a method. Raises InvalidInput where the extra is not installed."""
    try:
        from mcp import types
        from mcp.server import Server
    except ImportError:
        raise InvalidInput(
            [
                Problem(
                    "serving the Model Context Protocol needs the extra `agent`, which brings mcp:"
                    " install apscheduler-calsched[agent]",
                    hint="--json-lines needs no extra",
                )
            ]
        ) from None

    async def list_tools(ctx: Any, params: Any) -> Any:
        tools = [
            types.Tool(name=method.name, description=method.description, input_schema=method.schema())
            for method in METHODS.values()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(ctx: Any, params: Any) -> Any:
        result, error = answer(app, params.name, params.arguments)
        told = result if error is None else {"error": error}
        text = types.TextContent(type="text", text=json.dumps(told, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=told, is_error=error is not None)

    return Server(
        "calsched", version=version("apscheduler-calsched"), instructions=INSTRUCTIONS, on_list_tools=list_tools,
        on_call_tool=call_tool,
    )  # fmt: skip


def serve(app: App) -> None:
    """Serve standard input and output until the client goes."""
    made = server(app)
    import anyio  # mcp brings it
    from mcp.server.stdio import stdio_server

    async def run() -> None:
        async with stdio_server() as (requests, answers):
            await made.run(requests, answers, made.create_initialization_options())

    anyio.run(run)
