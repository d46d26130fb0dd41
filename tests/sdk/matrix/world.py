"""What the Python servers of the matrix have in common: the state behind their tools, one for the process."""

import socket

import anyio

NAMES = ["Ada", "Alan", "Grace"]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
MESSAGE = "What is your name?"
PATIENCE = 20
gates = {}


def formed(action, content):
    return f"form: {action} {(content or {}).get('name')}"


def gate(key):
    return gates.setdefault(key, anyio.Event())


async def passed(key, state):
    """What becomes of the gate, now or soon."""
    with anyio.move_on_after(PATIENCE):
        await gate(key).wait()
        return state
    return "too late"


async def slow(steps, key, report):
    """Reports each step and ends when it is told to."""
    for step in range(1, steps + 1):
        await report(step, steps)
    return f"{steps} steps done, {await passed(f'slow {key}', 'told so')}"


def proceed(key):
    gate(f"slow {key}").set()
    return "told"


async def wait(key, report):
    """Says that it has begun, and ends only when it is cancelled."""
    await report(1, None)
    try:
        await anyio.sleep_forever()
    finally:
        gate(f"wait {key}").set()


async def was_cancelled(key):
    return await passed(f"wait {key}", "cancelled")


def serve(app):
    """An ASGI application on a port of its own; prints its URL."""
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
