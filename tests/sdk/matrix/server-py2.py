"""A 2026-07-28 server on the official Python SDK v2: server-py2.py NAME stdio|http; prints its URL."""

import sys

import mcp_types as types
import world
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

NAME, KIND = sys.argv[1:]
mcp = MCPServer(NAME)
changes = 0


def ask(context, request):
    """What the client answered; until it has, what to ask it."""
    answer = (context.input_responses or {}).get("asked")
    return answer, types.InputRequiredResult(input_requests={"asked": request})


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
async def ask_form(context: Context) -> str | types.InputRequiredResult:
    params = types.ElicitRequestFormParams(message=world.MESSAGE, requested_schema=world.FORM)
    answer, asked = ask(context, types.ElicitRequest(params=params))
    return world.formed(answer.action, answer.content) if answer else asked


@mcp.tool(structured_output=False)
async def ask_model(context: Context) -> str | types.InputRequiredResult:
    message = types.SamplingMessage(role="user", content=types.TextContent(text="Say a word"))
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=10)
    answer, asked = ask(context, types.CreateMessageRequest(params=params))
    return f"model: {answer.content.text}" if answer else asked


@mcp.tool(structured_output=False)
async def ask_roots(context: Context) -> str | types.InputRequiredResult:
    answer, asked = ask(context, types.ListRootsRequest())
    return f"roots: {','.join(str(root.uri) for root in answer.roots)}" if answer else asked


@mcp.tool(structured_output=False)
async def log(text: str, context: Context) -> str:
    await context.log("warning", text, logger_name="matrix")
    return "logged"


@mcp.tool(structured_output=False)
async def change(context: Context) -> str:
    global changes
    if changes:
        mcp.remove_tool(f"extra_{changes}")
    changes += 1
    mcp.add_tool(lambda: "extra", name=f"extra_{changes}", description="extra")
    await context.notify_tools_changed()
    return f"extra_{changes}"


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
