"""Five official clients, nine official servers behind one gateway: each feature of each pair must be what a direct connection gives.

matrix.py [--markdown] [--direct]: the table as Markdown; direct connections only.
"""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processes import CACHE, NODE, PATIENCE, PYTHON, TESTS, Processes, report, table

HERE = TESTS / "sdk/matrix"
PYTHON1 = str(CACHE / "venv1/bin/python")
RUST = CACHE / "target-fixture/debug"
WORDS = 'Tür zu? "ja"\n \u2028 \U0001f6aa'
STEP = 30  # seconds for one feature; a bound against hanging

# What they are called, how they are started, and their era.
CLIENTS = {
    "TypeScript 1.32": ([NODE, str(HERE / "client-ts1.mjs")], 2025),
    "TypeScript 2.4": ([NODE, str(HERE / "client-ts2.mjs")], 2026),
    "Python 1.30": ([PYTHON1, str(HERE / "client-py1.py")], 2025),
    "Python 2.3": ([PYTHON, str(HERE / "client-py2.py")], 2026),
    "Rust 3.11": ([str(RUST / "matrix-client")], 2026),
}


class Server:
    """One server: its name in the gateway's file, what it is called, how it is started, its transport, its era."""

    def __init__(self, name, title, command, kind, era):
        self.name, self.title, self.kind, self.era = name, title, kind, era
        self.command = [*command, name, kind]
        if kind == "stdio" and era == 2025:
            # The gateway has a process for each kind of client: what changes is outside of them all.
            changes = CACHE / f"matrix-{name}.changes"
            changes.write_text("0")
            self.command.append(str(changes))
        self.target = self.command

    def start(self, processes):
        """Those over HTTP are started once; those over stdio by whoever connects."""
        if self.kind != "stdio":
            self.target = processes.start(f"matrix-{self.name}", self.command, r"http\S+", stream="stdout")[0]

    def config(self):
        lines = ["[[server]]", f'name = "{self.name}"', f'prefix = "{self.name}"', "required = true"]
        lines += [f"{'command' if self.kind == 'stdio' else 'url'} = {json.dumps(self.target)}"]
        lines += ['protocol = "sse"'] if self.kind == "sse" else []
        # What a process asks names no call: it is surely this call's only when others have processes of their own.
        lines += ['session_scope = "session"'] if self.kind == "stdio" and self.era == 2025 else []
        # A cold start on a busy machine takes its time, and nothing here measures it.
        return "\n".join([*lines, f'list_timeout = "{PATIENCE}s"', f'probe_timeout = "{PATIENCE}s"', ""])


def servers():
    ts1, ts2 = [NODE, str(HERE / "server-ts1.mjs")], [NODE, str(HERE / "server-ts2.mjs")]
    py1, py2 = [PYTHON1, str(HERE / "server-py1.py")], [PYTHON, str(HERE / "server-py2.py")]
    return [
        Server("tsone", "TypeScript 1.32, stdio", ts1, "stdio", 2025),
        Server("tsonehttp", "TypeScript 1.32, HTTP", ts1, "http", 2025),
        Server("tsonesse", "TypeScript 1.32, HTTP+SSE", ts1, "sse", 2025),
        Server("tstwohttp", "TypeScript 2.4, HTTP", ts2, "http", 2026),
        Server("pyone", "Python 1.30, stdio", py1, "stdio", 2025),
        Server("pyonehttp", "Python 1.30, HTTP", py1, "http", 2025),
        Server("pytwo", "Python 2.3, stdio", py2, "stdio", 2026),
        Server("pytwohttp", "Python 2.3, HTTP", py2, "http", 2026),
        Server("rusthttp", "Rust 3.11, HTTP", [str(RUST / "matrix-server")], "http", 2026),
    ]


TOOLS = "ask_form ask_model ask_roots change echo fail log proceed slow wait was_cancelled".split()
FEATURES = "list call progress cancel error read prompt completion list_changed elicitation sampling roots logging".split()
# A pair that cannot have a feature, by the specification: (client, server, feature) and why. `None` stands for all.
LIMITS = [
    (
        None,
        ["tsone", "tsonesse", "pyone", "pytwo"],
        ["logging"],
        "A log message over stdio or HTTP+SSE names no request, and one connection serves many callers: it goes to the operator's log (2026-07-28 "
        "allows it on the stream of its own request only, and only if that asked for it).",
    ),
]


def wanted(server):
    """What each feature has to bring; `error` is compared without the words that an SDK puts before a tool's own."""
    return {
        "list": TOOLS,
        "call": WORDS,
        "progress": ["3 steps done, told so", [[1, 3], [2, 3], [3, 3]]],
        "cancel": ["given up", "cancelled"],
        "error": [True, "it did not work", "refused"],
        "read": [True, f"note of {server.name}"],
        "prompt": [True, "Greet Ada"],
        "completion": ["Ada", "Alan"],
        "list_changed": "fresh",
        "elicitation": "form: accept Ada",
        "sampling": "model: sampled",
        "roots": "roots: file:///matrix",
        "logging": ["warning", True],
    }


def main(*flags):
    problems, cells, everyone = [], {}, servers()
    began = time.monotonic()
    with Processes() as processes:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda server: server.start(processes), everyone))
        direct = run_all(lambda client, server: speaks(client, server) and job(client, server, server.target, ""), everyone)
        if "--direct" not in flags:
            config = "\n".join(['[gateway]\nlisten = "127.0.0.1:0"\nadmin_listen = "127.0.0.1:0"\n', *(server.config() for server in everyone)])
            gateway, _ = processes.gateway("gateway-matrix", config)
            cells = run_all(lambda client, server: job(client, server, f"{gateway}/mcp", f"{server.name}_"), everyone)
    for (client, server), found in direct.items():
        problems += [f"directly: {client} at {server.title}: {fault}" for fault in faults(server, found).values()]
    print_table(cells or direct, everyone, "--markdown" in flags)
    for (client, server), found in cells.items():
        for feature, fault in faults(server, found).items():
            if not limit(client, server, feature):
                problems.append(f"{client} at {server.title}: {fault}")
    problems += [f"still running after the test: {process}" for process in processes.left_behind]
    print(f"{len(direct)} direct connections, {len(cells)} through the gateway, {time.monotonic() - began:.0f} s")
    report(problems, (len(direct) + len(cells)) * len(FEATURES))
    return bool(problems)


def speaks(client, server):
    """Whether they understand each other without us; the Rust client here has HTTP only."""
    return CLIENTS[client][1] == server.era and not (client.startswith("Rust") and server.kind == "stdio")


def job(client, server, target, prefix):
    key = f"{client} at {server.name} {'through' if prefix else 'directly'}"
    return {"target": target, "sse": server.kind == "sse" and not prefix, "prefix": prefix, "uri": f"note://{server.name}/text", "words": WORDS, "key": key}


def run_all(make, everyone):
    """Each client in a process of its own, with all its jobs one after the other, those of one era after each other as well; returns
    what came of them by pair."""

    def work(client):
        jobs = {server.name: made for server in everyone if (made := make(client, server))}
        for name, made in jobs.items():
            made["label"] = name
        order = json.dumps({"jobs": list(jobs.values()), "patience": STEP})
        log = CACHE / "logs" / f"matrix-{client.replace(' ', '-')}.log"
        with open(log, "w") as stderr:
            done = subprocess.run(CLIENTS[client][0], input=order, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=PATIENCE * 10)
        found = {line["label"]: line for line in map(json.loads, filter(None, done.stdout.split("\n")))}
        missing = {"failed": f"the client ended with {done.returncode}: see {log}", "features": {}}
        return {(client, server): found.get(server.name, missing) for server in everyone if server.name in jobs}

    eras = [[client for client, (_, era) in CLIENTS.items() if era == year] for year in (2025, 2026)]
    with ThreadPoolExecutor(len(eras)) as pool:
        parts = pool.map(lambda clients: [work(client) for client in clients], eras)
        return {pair: found for part in parts for each in part for pair, found in each.items()}


def faults(server, found):
    """What is not as it should be, by feature."""
    if "failed" in found:
        return {"list": f"no connection: {found['failed']}"}
    want, wrong = wanted(server), {}
    for feature in FEATURES:
        got = found["features"].get(feature, {"error": "not tried"})
        value = got.get("got")
        if feature == "error" and value and isinstance(value[1], str) and value[1].endswith(want[feature][1]):
            value = [value[0], want[feature][1], value[2]]
        if value != want[feature]:
            wrong[feature] = f"{feature}: {got.get('error') or value} instead of {want[feature]}"
    return wrong


def limit(client, server, feature):
    """The number of the reason why this cannot be, from 1; None where it must be."""
    for number, (clients, names, features, _) in enumerate(LIMITS, 1):
        if client in (clients or CLIENTS) and server.name in (names or [server.name]) and feature in features:
            return number
    return None


def print_table(cells, everyone, markdown):
    """A row for each server, a column for each client: how many features are as they should be, and which are not."""
    rows = [("server", *CLIENTS)]
    for server in everyone:
        row = [server.title]
        for client in CLIENTS:
            found = cells.get((client, server))
            wrong = {} if found is None else faults(server, found)
            named = [f"{feature}{f' [{number}]' if (number := limit(client, server, feature)) else ''}" for feature in wrong]
            count = 0 if found and "failed" in found else len(FEATURES) - len(wrong)
            row.append("–" if found is None else f"{count}/{len(FEATURES)}{' not: ' if named else ''}{', '.join(named)}")
        rows.append(tuple(row))
    if markdown:
        rows.insert(1, ("---",) * len(rows[0]))
        print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    else:
        table(rows)
    for number, (*_, reason) in enumerate(LIMITS, 1):
        print(f"[{number}] {reason}")


sys.exit(main(*sys.argv[1:]))
