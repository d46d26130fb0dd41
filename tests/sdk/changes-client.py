"""The official Python client watches: changes-client.py URL PATIENCE; reads steps as JSON from stdin, prints what each brought.

A step calls a tool that changes something, waits for the notice, and asks anew: from the cache, again from the cache, past the cache.
"""

import json
import sys
import time

import anyio
from mcp import Client

NAMES = {"tools": "name", "prompts": "name", "resources": "uri"}


def kind(event):
    """What changed, and the URI of what was updated."""
    name = type(event).__name__
    return ("updated", str(event.uri)) if name == "ResourceUpdated" else (name.removesuffix("ListChanged").lower(), None)


async def fetch(client, what, uri, mode):
    """Names as they are now and how long they may be kept."""
    if what == "updated":
        result = await client.read_resource(uri, cache_mode=mode)
        return [getattr(part, "text", "") for part in result.contents], result.ttl_ms
    names, cursor, ttl = [], None, None
    while page := await getattr(client, f"list_{what}")(cursor=cursor, cache_mode=mode):
        names += [str(getattr(item, NAMES[what])) for item in getattr(page, what)]
        ttl = page.ttl_ms if ttl is None else ttl
        if not (cursor := page.next_cursor):
            return names, ttl


async def take(client, step, notices, patience):
    what, uri = step["what"], step.get("uri")
    toggle = step.get("toggle")  # what is only told of, and goes on until the tool is called again
    if not toggle:
        await fetch(client, what, uri, "use")  # so that there is something old to be kept
    early = 0
    while notices.statistics().current_buffer_used:
        notices.receive_nowait()
        early += 1
    began = time.monotonic()
    answer = await client.call_tool(step["tool"], step["arguments"])
    wanted = step.get("name") or answer.content[0].text
    noticed = None
    with anyio.move_on_after(patience):
        while noticed is None:
            *event, when = await notices.receive()
            if event == [what, uri]:
                noticed = when - began
            else:
                early += 1
    if toggle:
        await client.call_tool(step["tool"], step["arguments"])
    asked = [await fetch(client, what, uri, mode) for mode in ("use", "use", "bypass") if not toggle]
    fresh = [any(name.endswith(wanted) for name in names) for names, _ in asked]
    same = all(names == asked[0][0] for names, _ in asked)
    ttl = min((ttl or 0 for _, ttl in asked), default=None)
    return {"delay": noticed, "early": early, "fresh": fresh, "same": same, "ttl": ttl, "wanted": wanted, "error": answer.is_error}


async def main(url, patience):
    steps = json.load(sys.stdin)
    send, notices = anyio.create_memory_object_stream(10000)
    async with Client(url) as client, anyio.create_task_group() as group:
        uris = sorted({step["uri"] for step in steps if "uri" in step})
        lists = {f"{what}_list_changed": True for what in NAMES}
        async with client.listen(**lists, resource_subscriptions=uris) as stream:

            async def watch():
                async for event in stream:
                    send.send_nowait((*kind(event), time.monotonic()))

            group.start_soon(watch)
            done = [await take(client, step, notices, patience) for step in steps]
            honored = stream.honored.model_dump(mode="json", by_alias=True, exclude_none=True)
            group.cancel_scope.cancel()
    print(json.dumps({"honored": honored, "steps": done}))


anyio.run(main, sys.argv[1], float(sys.argv[2]))
