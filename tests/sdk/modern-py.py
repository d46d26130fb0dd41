"""A 2026-07-28 server on the official Python SDK: modern-py.py; prints its URL."""

import socket

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("modern-py")


@server.tool()
def echo(text: str) -> str:
    """Says it back."""
    return text


@server.tool(title="Sum")
def add(a: int, b: int) -> dict[str, int]:
    """Adds two numbers."""
    return {"sum": a + b}


@server.tool()
async def slow(steps: int, context: Context) -> str:
    """Reports progress."""
    for step in range(1, steps + 1):
        await context.report_progress(step, steps, f"step {step}")
    return f"{steps} steps done"


@server.tool()
def fail() -> str:
    """Fails, as a tool does."""
    raise ValueError("it did not work")


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])
