"""`calsched agent`: the agent methods over standard input and output."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from calsched.cli.common import Session, command
from calsched.cli.main import app as root


@command(root, "agent", json=False)
def agent(
    session: Session,
    json_lines: Annotated[bool, typer.Option("--json-lines", help="Plain JSON lines instead of MCP.")] = False,
    allow: Annotated[list[str] | None, typer.Option(help="module:name or module:*; repeatable.")] = None,
) -> None:
    """Serve schedule methods to an agent over stdio, as a Model Context Protocol server. It never runs tasks."""
    app = session.app(**({"allow": list(allow)} if allow else {}))
    if json_lines:
        from calsched.agent import json_lines as lines

        lines.serve(app, sys.stdin.buffer, sys.stdout.buffer)
    else:
        from calsched.agent import mcp_server

        mcp_server.serve(app)
