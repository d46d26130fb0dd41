"""A rug pull by a server on an official SDK: under `hold` no client can list what nobody approved, and everybody is told.

A server turns its tool's description, then an annotation, then a schema, while a thousand lists are in flight. Each of them shows
what was approved; the change is in the metrics, the audit log and on the status page; `gatehouse approve` releases it.
"""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import modern
from processes import BINARY, CACHE, NODE, PATIENCE, PYTHON, TESTS, Processes, report, table

SDK = TESTS / "sdk"
SERVERS = {"TypeScript": [NODE, str(SDK / "turning-ts.mjs")], "Python": [PYTHON, str(SDK / "turning-py.py")]}
CLIENTS, LISTS = 20, 17  # 1020 lists in all: 340 a turn
RULES = [["description-changed"], ["annotation-turned", "description-changed"], None]


def main():
    problems, rows = [], [("server", "turns", "lists", "metrics", "audit", "status page", "released")]
    with Processes() as processes:
        for number, (name, command) in enumerate(SERVERS.items()):
            rows.append(pull(processes, f"turning-{number}", name, command, problems))
    table(rows)
    problems += [f"still running after the test: {process}" for process in processes.left_behind]
    report(problems, sum(row[1] for row in rows[1:]) * 4 + len(SERVERS))
    return bool(problems)


def pull(processes, place, name, command, problems):
    url = processes.start(place, command, r"http\S+", stream="stdout")[0]
    server = processes.running[-1]
    folder = CACHE / place
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = f"""
[gateway]
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"
[audit]
file = {json.dumps(str(folder / "audit.jsonl"))}
[contract]
lock = {json.dumps(str(folder / "gatehouse.lock"))}
[[server]]
name = "s"
url = {json.dumps(url)}
contract = "hold"
list_timeout = "{PATIENCE}s"
probe_timeout = "{PATIENCE}s"
"""
    (folder / "gatehouse.toml").write_text(config, encoding="utf-8")
    wrong = lambda what: problems.append(f"{name}: {what}")
    if gatehouse(folder, "lock").returncode:
        raise RuntimeError(f"{name}: nothing can be locked")
    gateway, admin = processes.gateway(place + "-gateway", config)
    approved = tools(f"{gateway}/mcp")
    counts = {"turns": 0, "lists": 0, "metrics": 0, "audit": 0, "status": 0}
    for rules in RULES:
        seen = []
        threads = [threading.Thread(target=lambda: seen.extend(tools(f"{gateway}/mcp") for _ in range(LISTS))) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        before = tools(url)
        server.send_signal(signal.SIGUSR2)
        eventually(lambda: tools(url) != before, "the server turns")
        for thread in threads:
            thread.join()
        turned = tools(f"{gateway}/mcp")
        counts["turns"] += 1
        counts["lists"] += len(seen)
        # What can never work any more is withdrawn; it is never shown as it is now.
        may_be = (approved, []) if rules is None else (approved,)
        if odd := [shown for shown in [*seen, turned] if shown not in may_be]:
            wrong(f"turn {counts['turns']}: {len(odd)} of {len(seen)} lists show what nobody approved: {odd[0]}")
        counts["metrics"] += told(lambda: changes(admin) == counts["turns"], wrong, "not in the metrics")
        counts["audit"] += told(lambda: audited(folder, counts["turns"], rules), wrong, "not in the audit log")
        counts["status"] += told(lambda: on_page(admin, counts["turns"]), wrong, "not on the status page")
    now = tools(url)
    gatehouse(folder, "approve")
    released = told(lambda: same(tools(f"{gateway}/mcp"), now), wrong, "approval does not release it")
    return (name, *counts.values(), released)


def gatehouse(folder, command):
    return subprocess.run([BINARY, command, "--config", str(folder / "gatehouse.toml")], capture_output=True, timeout=PATIENCE)


def tools(url):
    return modern.last(modern.answered(modern.request(url, "tools/list", {})))["result"]["tools"]


def same(shown, offered):
    """Whether the gateway shows what the server offers, under its own name for it."""
    return [{**tool, "name": f"s_{tool['name']}"} for tool in offered] == shown


def changes(admin):
    lines = urllib.request.urlopen(f"{admin}/metrics", timeout=PATIENCE).read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("gatehouse_contract_changes_total{"))


def audited(folder, turns, rules):
    lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line.get("event") == "contract_change"]
    fits = len(lines) == turns and all(line["held"] and line["item"] == "send" for line in lines)
    return fits and (rules is None or lines[-1]["rules"] == rules)


def on_page(admin, turns):
    page = json.loads(urllib.request.urlopen(f"{admin}/status/data", timeout=PATIENCE).read())
    return len([one for one in page["contracts"] if "send" in json.dumps(one)]) == turns


def told(holds, wrong, what):
    try:
        eventually(holds, what)
    except RuntimeError:
        wrong(what)
        return False
    return True


def eventually(holds, what):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.05)


sys.exit(main())
