"""What the Python clients of the matrix do with each server: reads jobs from stdin, prints a line of JSON for each."""

import json
import sys

import anyio


class Peer:
    """One connection; a subclass for each SDK. `notices` holds what the server told: ("tools",) and ("log", level, data)."""

    def __init__(self):
        self.notices = []
        self.told = anyio.Event()

    def note(self, *notice):
        self.notices.append(notice)
        self.told.set()
        self.told = anyio.Event()

    async def take(self, fits, seconds):
        """The first notice that fits; None if none comes in time."""
        with anyio.move_on_after(seconds):
            while True:
                for notice in self.notices:
                    if fits(notice):
                        self.notices.remove(notice)
                        return notice
                await self.told.wait()
        return None

    async def names(self, prefix):
        tools = await self.all("tools")
        return [tool.name.removeprefix(prefix) for tool in tools if tool.name.startswith(prefix)]


def said(result):
    return result.content[0].text


async def listing(peer, job):
    return sorted(name for name in await peer.names(job["prefix"]) if not name.startswith("extra_"))


async def call(peer, job):
    return said(await peer.call(job["prefix"] + "echo", {"text": job["words"]}))


async def progress(peer, job):
    notes = []
    async with anyio.create_task_group() as group:

        async def note(progress, total, message):
            notes.append([progress, total])
            if progress == 3:
                group.start_soon(peer.call, job["prefix"] + "proceed", {"key": job["key"]})

        return [said(await peer.call(job["prefix"] + "slow", {"steps": 3, "key": job["key"]}, note)), notes]


async def cancel(peer, job):
    ended = await peer.give_up(job["prefix"] + "wait", {"key": job["key"]})
    return [ended, said(await peer.call(job["prefix"] + "was_cancelled", {"key": job["key"]}))]


async def error(peer, job):
    failed = await peer.call(job["prefix"] + "fail", {})
    try:
        unknown = "refused" if peer.is_error(await peer.call(job["prefix"] + "no_such_tool", {})) else "answered"
    except peer.ERROR:
        unknown = "refused"
    return [peer.is_error(failed), said(failed), unknown]


async def read(peer, job):
    listed = any(str(resource.uri) == job["uri"] for resource in await peer.all("resources"))
    return [listed, (await peer.read(job["uri"])).contents[0].text]


async def prompt(peer, job):
    name = job["prefix"] + "greet"
    listed = any(prompt.name == name for prompt in await peer.all("prompts"))
    return [listed, (await peer.client.get_prompt(name, {"name": "Ada"})).messages[0].content.text]


async def completion(peer, job):
    return (await peer.complete(job["prefix"] + "greet", {"name": "name", "value": "A"})).completion.values


async def list_changed(peer, job):
    def number(name):
        return int(name.partition("extra_")[2] or 0)

    heard = "no notice"
    async with peer.listen():
        # A client of 2025 cannot know when its stream for notices is open: until then they go nowhere, and it changes again.
        for _ in range(20):
            extra = said(await peer.call(job["prefix"] + "change", {}))
            # A notice may be of what another client changed: then its own is still to come.
            while await peer.take(lambda notice: notice[0] == "tools", 1):
                if max(map(number, await peer.names(job["prefix"]))) >= number(extra):
                    return "fresh"
                heard = "an old list"
    return heard


async def ask_form(peer, job):
    return said(await peer.call(job["prefix"] + "ask_form", {}))


async def ask_model(peer, job):
    return said(await peer.call(job["prefix"] + "ask_model", {}))


async def ask_roots(peer, job):
    return said(await peer.call(job["prefix"] + "ask_roots", {}))


async def logging(peer, job):
    await peer.level("debug")
    await peer.call(job["prefix"] + "log", {"text": job["key"]})
    notice = await peer.take(lambda notice: notice[0] == "log" and notice[2] == job["key"], 5) or (None, None, None)
    return [notice[1], notice[2] == job["key"]]


STEPS = {"list": listing, "call": call, "progress": progress, "cancel": cancel, "error": error, "read": read, "prompt": prompt,
         "completion": completion, "list_changed": list_changed, "elicitation": ask_form, "sampling": ask_model, "roots": ask_roots,
         "logging": logging}  # fmt: skip


def root(failure):
    """The one failure inside groups of them."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return f"{getattr(getattr(failure, 'error', failure), 'code', type(failure).__name__)}: {failure}"[:500]


async def work(connect, job, patience, done):
    with anyio.fail_after(patience * (1 + len(STEPS))):
        async with connect(job) as peer:
            done["version"] = peer.version
            for name, step in STEPS.items():
                try:
                    with anyio.fail_after(patience):
                        done["features"][name] = {"got": await step(peer, job)}
                except Exception as failure:
                    done["features"][name] = {"error": root(failure)}


async def main(connect):
    order = json.load(sys.stdin)
    for job in order["jobs"]:
        done = {"label": job["label"], "features": {}}
        try:
            await work(connect, job, order["patience"], done)
        except Exception as failure:
            if len(done["features"]) < len(STEPS):  # what breaks only when it ends has done all that is asked
                done["failed"] = root(failure)
        print(json.dumps(done), flush=True)
