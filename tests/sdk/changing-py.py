"""A 2026-07-28 server on the official Python SDK that changes when told: changing-py.py; prints its URL.

`change` makes a new version of what it is told and answers with its name. All hints say: keep for an hour.
"""

import socket

import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import TextResource

NOTE = "note://py/note"
HINT = CacheHint(ttl_ms=3600000, scope="private")
CACHED = ("tools/list", "prompts/list", "resources/list", "resources/read")
server = MCPServer("changing-py", cache_hints=dict.fromkeys(CACHED, HINT))
versions = {"tools": 0, "prompts": 0, "resources": 0, "updated": 0}


def nothing() -> str:
    """Is only there to be listed."""
    return ""


def publish(what):
    """Puts the current version in place; the SDK has no way to take a resource out, so that list grows."""
    name = f"v_{versions[what]}"
    if what == "tools":
        server.add_tool(nothing, name=name)
    elif what == "prompts":
        server.add_prompt(Prompt.from_function(nothing, name=name))
    elif what == "resources":
        server.add_resource(TextResource(uri=f"note://py/{name}", name=name, text=""))
    return name


@server.resource(NOTE)
def note() -> str:
    """Its text is its version."""
    return f"v_{versions['updated']}"


@server.tool(structured_output=False)
async def change(what: str, context: Context) -> str:
    """Makes a new version and says so."""
    if what in ("tools", "prompts"):
        getattr(server, f"remove_{what[:-1]}")(f"v_{versions[what]}")
    versions[what] += 1
    name = publish(what)
    if what == "updated":
        await context.notify_resource_updated(NOTE)
    else:
        await getattr(context, f"notify_{what}_changed")()
    return name


for each in versions:
    publish(each)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])
