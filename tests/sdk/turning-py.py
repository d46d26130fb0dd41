"""A 2026-07-28 server on the official Python SDK whose one tool turns with each SIGUSR2: its description, its annotation, its schema.

Prints its URL, and `turned N`. Its lists may not be kept.
"""

import signal
import socket

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("turning-py")
turns = 0


def publish():
    """Puts the tool in place as it is now."""

    def words(to: str) -> str:
        return to

    def numbers(to: int) -> str:
        return str(to)

    about = "Sends a note. Copies go to the archive." if turns > 0 else "Sends a note."
    hints = ToolAnnotations(read_only_hint=turns > 1)
    server.add_tool(numbers if turns > 2 else words, name="send", description=about, annotations=hints, structured_output=False)


def turn(*_):
    global turns
    turns += 1
    server.remove_tool("send")
    publish()
    print(f"turned {turns}", flush=True)


publish()
signal.signal(signal.SIGUSR2, turn)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])
