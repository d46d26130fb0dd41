"""Real servers change behind one gateway: real clients in front get each notice, and after it never an old list."""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processes import LOOPBACK, NODE, PATIENCE, PYTHON, TESTS, Processes, report, table

SDK = TESTS / "sdk"
EVERYTHING = [NODE, *LOOPBACK, str(TESTS / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")]
CLIENTS = {"TypeScript": [NODE, str(SDK / "changes-client.mjs")], "Python": [PYTHON, str(SDK / "changes-client.py")]}
SCALE = float(os.environ.get("GH_SCALE", "1"))
# Of each kind on each modern server; for Python, whose cache is held against ours, 204 lists in all.
ROUNDS = {"TypeScript": max(int(5 * SCALE), 1), "Python": max(int(34 * SCALE), 1)}
KINDS = ("tools", "prompts", "resources", "updated")
LEGACY_NOTE = "demo://resource/dynamic/text/1"


def main():
    problems, rows = [], [("client", "server", "changed", "rounds", "notices", "fresh", "kept s", "median ms", "most ms", "others")]
    with Processes() as processes:
        gateway = start_gateway(processes)
        for client in CLIENTS:
            for server in ("ts", "py"):
                rows += watch(client, server, f"{gateway}/mcp", modern_steps(server, ROUNDS[client]), problems)
            for server in ("stdio", "web"):
                rows += watch(client, server, f"{gateway}/mcp/{server}", legacy_steps(server, client), problems)
    table(rows)
    problems += [f"still running after the test: {process}" for process in processes.left_behind]
    report(problems, sum(row[3] for row in rows[1:]))
    return bool(problems)


def start_gateway(processes):
    http, free = r"http\S+", {"PORT": "0", "SAY_PORT": "1"}
    web = processes.start("changing-everything", [*EVERYTHING, "streamableHttp"], r"bound (\S+)", env=free)[1]
    targets = {
        "ts": processes.start("changing-ts", [NODE, str(SDK / "changing-ts.mjs")], http, stream="stdout")[0],
        "py": processes.start("changing-py", [PYTHON, str(SDK / "changing-py.py")], http, stream="stdout")[0],
        "stdio": [*EVERYTHING, "stdio"],
        "web": f"{web}/mcp",
    }
    lines = ["[gateway]", 'listen = "127.0.0.1:0"', 'admin_listen = "127.0.0.1:0"']
    for path, servers in (("/mcp", ["ts", "py"]), ("/mcp/stdio", ["stdio"]), ("/mcp/web", ["web"])):
        lines += ["[[endpoint]]", f'path = "{path}"', f"servers = {json.dumps(servers)}"]
    for name, target in targets.items():
        kind = "url" if isinstance(target, str) else "command"
        lines += ["[[server]]", f'name = "{name}"', f"{kind} = {json.dumps(target)}", "required = true"]
        lines += [f'list_timeout = "{PATIENCE}s"', f'probe_timeout = "{PATIENCE}s"']
        if name in ("stdio", "web"):
            # Their resources and subscriptions are their session's: what a call changes in a caller's own is not in the gateway's.
            lines.append('session_scope = "shared"')
    return processes.gateway("gateway-changes", "\n".join(lines))[0]


def modern_steps(server, rounds):
    """Each kind in turn; the server says what the new version is called."""
    steps = []
    for what in KINDS * rounds:
        steps.append({"what": what, "tool": f"{server}_change", "arguments": {"what": what}})
        if what == "updated":
            steps[-1]["uri"] = f"note://{server}/note"
    return steps


def legacy_steps(server, client):
    """What server-everything can do: a new resource, and updates of one that has no versions, until they are turned off again."""
    file = {"name": f"{client}.gz", "data": "data:text/plain,hello", "outputType": "resourceLink"}
    return [
        {"what": "resources", "tool": f"{server}_gzip-file-as-resource", "name": file["name"], "arguments": file},
        {"what": "updated", "uri": LEGACY_NOTE, "tool": f"{server}_toggle-subscriber-updates", "toggle": True, "arguments": {}},
    ]


def watch(client, server, url, steps, problems):
    """One client, one server: a row for each kind of change."""
    done = run(client, url, steps)
    if "uri" in steps[-1] and not done["honored"].get("resourceSubscriptions"):
        problems.append(f"{client}: {server}: subscribed only to {done['honored']}")
    rows = []
    for what in KINDS:
        mine = [result for step, result in zip(steps, done["steps"]) if step["what"] == what]
        if not mine:
            continue
        for number, result in enumerate(mine):
            if wrong := fault(result):
                problems.append(f"{client}: {server}: {what}, round {number + 1}: {wrong}: {result}")
        delays = sorted(result["delay"] * 1000 for result in mine if result["delay"] is not None) or [float("nan")]
        fresh = sum(all(result["fresh"]) for result in mine if result["fresh"])
        kept = min(result["ttl"] or 0 for result in mine) / 1000
        counts = [len(mine), sum(result["delay"] is not None for result in mine), fresh]
        times = [f"{kept:.0f}", f"{delays[len(delays) // 2]:.1f}", f"{delays[-1]:.1f}"]
        rows.append((client, server, what, *counts, *times, sum(result["early"] for result in mine)))
    return rows


def fault(result):
    """What must not be; the gravest first."""
    if result["error"]:
        return "the call failed"
    if result["delay"] is None:
        return "no notice"
    if not all(result["fresh"]):
        return "an old list after the notice"
    if not result["same"]:
        return "the caches disagree"
    return None if result["ttl"] != 0 else "nothing may be kept: this test shows nothing"


def run(client, url, steps):
    command, limit = [*CLIENTS[client], url, str(PATIENCE)], PATIENCE * 10 * max(SCALE, 1)
    done = subprocess.run(command, input=json.dumps(steps), capture_output=True, text=True, timeout=limit)
    if done.returncode:
        raise RuntimeError(f"the {client} client fails at {url}: {done.stderr[-3000:]}")
    return json.loads(done.stdout)


sys.exit(main())
