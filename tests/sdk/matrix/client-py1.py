"""The official Python SDK v1 as client of the matrix."""

from contextlib import asynccontextmanager

import anyio
import steps
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


class Peer(steps.Peer):
    ERROR = McpError

    @staticmethod
    def is_error(result):
        return result.isError

    async def call(self, name, arguments, progress=None):
        return await self.client.call_tool(name, arguments, progress_callback=progress)

    async def give_up(self, name, arguments):
        """Calls and cancels once it has begun. The SDK only stops to wait: the notice is sent by hand."""
        number = self.client._request_id
        async with anyio.create_task_group() as group:

            async def begun(progress, total, message):
                params = types.CancelledNotificationParams(requestId=number, reason="enough")
                await self.client.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
                group.cancel_scope.cancel()

            await self.call(name, arguments, begun)
            return "answered"
        return "given up"

    async def all(self, what):
        items, cursor = [], None
        while True:
            page = await getattr(self.client, f"list_{what}")(params=types.PaginatedRequestParams(cursor=cursor))
            items += getattr(page, what)
            if not (cursor := page.nextCursor):
                return items

    async def read(self, uri):
        return await self.client.read_resource(types.AnyUrl(uri))

    async def complete(self, prompt, argument):
        return await self.client.complete(types.PromptReference(type="ref/prompt", name=prompt), argument)

    @asynccontextmanager
    async def listen(self):
        yield

    async def level(self, level):
        await self.client.set_logging_level(level)


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def sample(context, params):
    return types.CreateMessageResult(role="assistant", model="none", content=types.TextContent(type="text", text="sampled"))


async def roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///matrix")])


@asynccontextmanager
async def connect(job):
    target, peer = job["target"], Peer()

    async def log(params):
        peer.note("log", params.level, params.data)

    async def notice(message):
        if isinstance(getattr(message, "root", None), types.ToolListChangedNotification):
            peer.note("tools")

    if isinstance(target, list):
        transport = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    else:
        transport = (sse_client if job.get("sse") else streamable_http_client)(target)
    callbacks = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    async with transport as (read, write, *_):
        async with ClientSession(read, write, logging_callback=log, message_handler=notice, **callbacks) as peer.client:
            peer.version = (await peer.client.initialize()).protocolVersion
            yield peer


anyio.run(steps.main, connect)
