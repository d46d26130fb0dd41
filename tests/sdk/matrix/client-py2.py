"""The official Python SDK v2 as client of the matrix."""

from contextlib import asynccontextmanager

import anyio
import mcp_types as types
import steps
from mcp import Client, MCPError, StdioServerParameters


class Peer(steps.Peer):
    ERROR = MCPError

    @staticmethod
    def is_error(result):
        return result.is_error

    async def call(self, name, arguments, progress=None):
        return await self.client.call_tool(name, arguments, progress_callback=progress)

    async def give_up(self, name, arguments):
        """Calls and cancels once it has begun."""
        async with anyio.create_task_group() as group:

            async def begun(progress, total, message):
                group.cancel_scope.cancel()

            await self.call(name, arguments, begun)
            return "answered"
        return "given up"

    async def all(self, what):
        items, cursor = [], None
        while True:
            page = await getattr(self.client, f"list_{what}")(cursor=cursor)
            items += getattr(page, what)
            if not (cursor := page.next_cursor):
                return items

    async def read(self, uri):
        return await self.client.read_resource(uri)

    async def complete(self, prompt, argument):
        return await self.client.complete(types.PromptReference(name=prompt), argument)

    @asynccontextmanager
    async def listen(self):
        async with self.client.listen(tools_list_changed=True) as stream, anyio.create_task_group() as group:

            async def watch():
                async for _ in stream:
                    self.note("tools")

            group.start_soon(watch)
            yield
            group.cancel_scope.cancel()

    async def level(self, level):
        """Every request says it already."""


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def sample(context, params):
    return types.CreateMessageResult(role="assistant", model="none", content=types.TextContent(text="sampled"))


async def roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///matrix")])


@asynccontextmanager
async def connect(job):
    target, peer = job["target"], Peer()
    if isinstance(target, list):
        target = StdioServerParameters(command=target[0], args=target[1:])

    async def log(params):
        peer.note("log", params.level, params.data)

    callbacks = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots, "logging_callback": log}
    async with Client(target, log_level="debug", **callbacks) as peer.client:
        peer.version = peer.client.protocol_version
        yield peer


anyio.run(steps.main, connect)
