"""The official Python client: client.py TARGET CALLS lists all tools and makes all calls; prints what came back as JSON.

TARGET is a URL or an argv, CALLS a list of [name, arguments], both as JSON.
"""

import asyncio
import json
import os
import sys

from mcp import Client, MCPError, StdioServerParameters


def plain(model):
    """What was on the wire: unset is not null."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def call(client, name, arguments):
    progress = []

    async def on_progress(done, total, message):
        progress.append([done, total, message])

    try:
        return {"result": plain(await client.call_tool(name, arguments, progress_callback=on_progress)), "progress": progress}
    except MCPError as error:
        return {"error": error.code, "progress": progress}


async def main(target, calls):
    server = target
    if not isinstance(target, str):
        server = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
    async with Client(server) as client:
        tools, cursor = [], None
        while page := await client.list_tools(cursor=cursor):
            tools += [plain(tool) for tool in page.tools]
            if not (cursor := page.next_cursor):
                break
        answers = [await call(client, name, arguments) for name, arguments in calls]
        print(json.dumps({"version": client.protocol_version, "tools": tools, "answers": answers}))


asyncio.run(main(*map(json.loads, sys.argv[1:])))
