"""A 2025-11-25 server on the official Python SDK v1: server-py1.py NAME stdio|http [FILE]; prints its URL.

FILE counts the changes of all processes of a server over stdio: each tells when it has changed.
"""

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakSet

import anyio
import world
from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.lowlevel import NotificationOptions

NAME, KIND, *REST = sys.argv[1:]
FILE = Path(REST[0]) if REST else None
sessions = WeakSet()
changes = 0


class Server(FastMCP):
    async def list_tools(self):
        """As ever; who lists is told of changes."""
        sessions.add(self.get_context().session)
        return await super().list_tools()


@asynccontextmanager
async def watch(server):
    """Looks at the file as long as the server runs."""

    async def look():
        while True:
            await anyio.sleep(0.05)
            if text := FILE.read_text():  # it is empty while it is written
                await change_to(int(text))

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        yield
        group.cancel_scope.cancel()


mcp = Server(NAME, lifespan=watch if FILE else None)
options = mcp._mcp_server.create_initialization_options
# The SDK's shorthand never says that lists change.
mcp._mcp_server.create_initialization_options = lambda: options(NotificationOptions(tools_changed=True))


@mcp._mcp_server.set_logging_level()
async def level(level: types.LoggingLevel) -> None:
    """Every level is told."""


@mcp.tool(structured_output=False)
def echo(text: str) -> str:
    return text


@mcp.tool(structured_output=False)
async def slow(steps: int, key: str, context: Context) -> str:
    return await world.slow(steps, key, context.report_progress)


@mcp.tool(structured_output=False)
def proceed(key: str) -> str:
    return world.proceed(key)


@mcp.tool(structured_output=False)
async def wait(key: str, context: Context) -> str:
    return await world.wait(key, context.report_progress)


@mcp.tool(structured_output=False)
async def was_cancelled(key: str) -> str:
    return await world.was_cancelled(key)


@mcp.tool(structured_output=False)
def fail() -> str:
    raise ToolError("it did not work")


@mcp.tool(structured_output=False)
async def ask_form(context: Context) -> str:
    answer = await context.session.elicit_form(world.MESSAGE, world.FORM, context.request_id)
    return world.formed(answer.action, answer.content)


@mcp.tool(structured_output=False)
async def ask_model(context: Context) -> str:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say a word"))
    answer = await context.session.create_message([message], max_tokens=10, related_request_id=context.request_id)
    return f"model: {answer.content.text}"


@mcp.tool(structured_output=False)
async def ask_roots(context: Context) -> str:
    answer = await context.session.list_roots()
    return f"roots: {','.join(str(root.uri) for root in answer.roots)}"


@mcp.tool(structured_output=False)
async def log(text: str, context: Context) -> str:
    await context.log("warning", text, logger_name="matrix")
    return "logged"


async def change_to(number):
    global changes
    if number == changes:
        return
    if changes:
        mcp.remove_tool(f"extra_{changes}")
    changes = number
    mcp.add_tool(lambda: "extra", name=f"extra_{changes}", description="extra")
    for session in list(sessions):
        try:
            await session.send_tool_list_changed()
        except anyio.ClosedResourceError:
            sessions.discard(session)  # its client has left


@mcp.tool(structured_output=False)
async def change() -> str:
    number = (int(FILE.read_text()) if FILE else changes) + 1
    if FILE:
        FILE.write_text(str(number))
    await change_to(number)
    return f"extra_{number}"


@mcp.resource(f"note://{NAME}/text")
def note() -> str:
    return f"note of {NAME}"


@mcp.prompt()
def greet(name: str) -> str:
    return f"Greet {name}"


@mcp.completion()
async def complete(ref, argument, context):
    return types.Completion(values=[name for name in world.NAMES if name.startswith(argument.value)])


if KIND == "stdio":
    mcp.run()
else:
    world.serve(mcp.streamable_http_app())
