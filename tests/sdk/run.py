"""Real servers behind one gateway, real clients in front: what they get through it must equal what they get directly."""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processes import CACHE, LOOPBACK, NODE, PATIENCE, PYTHON, TESTS, Processes, report, table

SDK = TESTS / "sdk"
PACKAGES = TESTS / "node_modules/@modelcontextprotocol"
EVERYTHING = [NODE, *LOOPBACK, str(PACKAGES / "server-everything/dist/index.js")]
FOLDER = CACHE / "folder"
CLIENTS = {"TypeScript": [NODE, str(SDK / "client.mjs")], "Python": [PYTHON, str(SDK / "client.py")]}
WORDS = 'Tür zu? "ja"\n \u2028 \U0001f6aa'

EVERYTHING_CALLS = [
    ("echo", {"message": WORDS}),
    ("get-sum", {"a": 2, "b": 40.5}),
    ("get-tiny-image", {}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("trigger-long-running-operation", {"duration": 0.4, "steps": 4}),
    ("get-sum", {"a": "two"}),
]
MODERN_CALLS = [("echo", {"text": WORDS}), ("add", {"a": 2, "b": 40}), ("slow", {"steps": 4}), ("fail", {})]
FILE_CALLS = [
    ("list_directory", {"path": str(FOLDER)}),
    ("read_text_file", {"path": str(FOLDER / "words.txt")}),
    ("read_text_file", {"path": str(FOLDER / "missing.txt")}),
]


class Server:
    """One server: how it is reached, its prefix, its calls, and which of them must bring progress and which an error."""

    def __init__(self, name, prefix, target, calls, progress=(), errors=()):
        self.name, self.prefix, self.target = name, prefix, target
        self.calls, self.progress, self.errors = calls, progress, errors

    def config(self):
        kind = "url" if isinstance(self.target, str) else "command"
        # A cold start of Node on a busy machine takes its time, and nothing here measures it.
        return (
            f'\n[[server]]\nname = "{self.name}"\nprefix = "{self.prefix}"\n{kind} = {json.dumps(self.target)}\n'
            f'required = true\nlist_timeout = "{PATIENCE}s"\nprobe_timeout = "{PATIENCE}s"\n'
        )

    def exposed(self, name):
        return f"{self.prefix}_{name}"


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "words.txt").write_text(WORDS, encoding="utf-8")
    with Processes() as processes:
        servers = start_servers(processes)
        config = '[gateway]\nlisten = "127.0.0.1:0"\nadmin_listen = "127.0.0.1:0"\n' + "".join(server.config() for server in servers)
        gateway, _ = processes.gateway("gateway-sdk", config)
        problems = []
        rows = [("client", "server", "directly", "tools", "calls", "progress", "errors", "")]
        for client in CLIENTS:
            rows += compare_all(client, servers, f"{gateway}/mcp", problems)
    table(rows)
    problems += [f"still running after the test: {process}" for process in processes.left_behind]
    report(problems, sum(tools + calls for _, _, _, tools, calls, *_ in rows[1:]))
    return bool(problems)


def start_servers(processes):
    modern = r"http\S+"
    port = processes.start("everything-http", [*EVERYTHING, "streamableHttp"], r"bound (\S+)", env={"PORT": "0", "SAY_PORT": "1"})[1]
    ts = processes.start("modern-ts", [NODE, str(SDK / "modern-ts.mjs")], modern, stream="stdout")[0]
    py = processes.start("modern-py", [PYTHON, str(SDK / "modern-py.py")], modern, stream="stdout")[0]
    lookup = ("region_lookup", {"region": "Köln ", "level": 42, "note": "n"})
    files = [NODE, str(PACKAGES / "server-filesystem/dist/index.js"), str(FOLDER)]
    return [
        Server("everything", "every", [*EVERYTHING, "stdio"], EVERYTHING_CALLS, progress=[5], errors=[6]),
        Server("files", "files", files, FILE_CALLS, errors=[2]),
        Server("everything-http", "web", f"{port}/mcp", EVERYTHING_CALLS, progress=[5], errors=[6]),
        Server("modern-ts", "ts", ts, [*MODERN_CALLS, lookup], progress=[2], errors=[3]),
        Server("modern-py", "py", py, MODERN_CALLS, progress=[2], errors=[3]),
    ]


def compare_all(client, servers, gateway, problems):
    """One client against every server, directly and through the gateway; returns the table's rows."""
    def wrong(where, what):
        problems.append(f"{client}: {where}: {what}")

    calls = [(server.exposed(name), arguments) for server in servers for name, arguments in server.calls]
    through = run(client, gateway, [*calls, ("every_no_such_tool", {})])
    *answers, unknown = through["answers"]
    if unknown.get("error") != -32602:
        wrong("a tool that is not listed", f"{unknown} instead of -32602")
    if through["version"] != "2026-07-28":
        wrong("gateway", f"negotiated {through['version']}")
    rows, listed = [], []
    for server in servers:
        before = len(problems)
        direct = run(client, server.target, server.calls)
        listed += [{**tool, "name": server.exposed(tool["name"])} for tool in direct["tools"]]
        ours, answers = answers[: len(server.calls)], answers[len(server.calls) :]
        for number, ((name, _), want, got) in enumerate(zip(server.calls, direct["answers"], ours)):
            if plain(want) != plain(got):
                wrong(server.exposed(name), differing(plain(want), plain(got)))
            if not same_progress(want["progress"], got["progress"]):
                wrong(server.exposed(name), differing(want["progress"], got["progress"]))
            if bool(want["progress"]) != (number in server.progress):
                wrong(server.name, f"{name}: directly {len(want['progress'])} notes of progress: this test is wrong")
            if is_error(want) != (number in server.errors):
                wrong(server.name, f"{name}: directly {short(want)}: this test is wrong")
        counts = [len(direct["tools"]), len(ours), sum(len(answer["progress"]) for answer in ours), sum(map(is_error, ours))]
        rows.append((client, server.name, direct["version"], *counts, "" if len(problems) == before else "DIFFERENT"))
    compare_lists(listed, through["tools"], wrong)
    return rows


def is_error(answer):
    return bool(answer.get("result", {}).get("isError"))


def same_progress(want, got):
    """The same notes in order. One client forgets a last note that arrives in one piece with the result, on either way."""
    common = min(len(want), len(got))
    return want[:common] == got[:common] and abs(len(want) - len(got)) <= 1


def compare_lists(want, got, wrong):
    """The whole list, in order. `execution` belongs to the tasks of 2025-11-25, which a modern hop does not have (G-80): tools that
    run as such a task only are left out (R-64)."""
    want = [tool for tool in want if tool.get("execution", {}).get("taskSupport") != "required"]
    want, got = ([without(tool, "execution") for tool in tools] for tools in (want, got))
    names = [[tool["name"] for tool in tools] for tools in (want, got)]
    if names[0] != names[1]:
        missing, more = set(names[0]) - set(names[1]), set(names[1]) - set(names[0])
        wrong("tools/list", f"missing {sorted(missing)}, too many {sorted(more)}" if missing | more else f"another order: {names[1]}")
    by_name = {tool["name"]: tool for tool in got}
    for tool in want:
        if tool["name"] in by_name and tool != by_name[tool["name"]]:
            wrong(tool["name"], differing(tool, by_name[tool["name"]]))


def run(client, target, calls):
    command = [*CLIENTS[client], json.dumps(target), json.dumps(calls)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 2)
    if done.returncode:
        raise RuntimeError(f"the {client} client fails at {target}: {done.stderr[-3000:]}")
    return json.loads(done.stdout)


def plain(answer):
    """An answer without what belongs to the hop."""
    if "error" in answer:
        return {"error": answer["error"]}
    meta = answer["result"].get("_meta", {})
    kept = {key: value for key, value in meta.items() if not key.startswith("io.modelcontextprotocol/")}
    return {**without(answer["result"], "resultType", "ttlMs", "cacheScope"), "_meta": kept}


def without(table, *keys):
    return {key: value for key, value in table.items() if key not in keys}


def differing(want, got):
    """The parts that differ."""
    if isinstance(want, dict) and isinstance(got, dict):
        keys = [key for key in {**want, **got} if key not in want or key not in got or want[key] != got[key]]
        want, got = ({key: side[key] for key in keys if key in side} for side in (want, got))
    return f"\n  directly {short(want)}\n  through  {short(got)}"


def short(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 600 else f"{text[:600]}…"


sys.exit(main())
