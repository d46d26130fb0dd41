"""Runs the suite's authorization scenarios for clients against the gateway as the client of a server: exactly as listed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processes import CACHE, LOOPBACK, NODE, PYTHON, TESTS, report, table

LIST = TESTS / "conformance-auth.toml"
SUITE = TESTS / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
COMMAND = f"{PYTHON} {TESTS / 'conformance/through.py'}"
RESULTS = CACHE / "conformance/auth"
AT_ONCE = 4
RANK = {"FAILURE": 0, "WARNING": 1, "SKIPPED": 2, "SUCCESS": 3}


def main():
    listed = tomllib.loads(LIST.read_text())
    shutil.rmtree(RESULTS, ignore_errors=True)
    runs = [(entry, revision) for entry in listed["scenario"] for revision in entry["revisions"]]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda run: run_scenario(run[0]["name"], run[1]), runs))
    rows, problems, checked = [("scenario", "revision", "passed", "not met")], covered(listed), 0
    for (entry, revision), outcome in zip(runs, outcomes):
        failing = {check for check, status in outcome.items() if RANK[status] < RANK["SUCCESS"]}
        rows.append((entry["name"], revision, len(outcome) - len(failing), " ".join(sorted(failing))))
        checked += len(outcome)
        problems += judge(f"{entry['name']} at {revision}", entry, set(outcome) - failing, failing)
    table(rows)
    for entry in listed["left_out"]:
        print(f"left out: {entry['scenario']}: {entry['reason']}")
    report(problems, checked)
    return bool(problems)


def run_scenario(name, revision):
    """The worst status of each check that judges the client."""
    folder = RESULTS / revision
    folder.mkdir(parents=True, exist_ok=True)
    command = [NODE, *LOOPBACK, str(SUITE), "client", "--command", COMMAND, "--scenario", name, "--timeout", "90000"]
    command += ["--spec-version", revision, "--force", "-o", str(folder)]
    with open(folder / f"{name.replace('/', '-')}.log", "w", encoding="utf-8") as log:
        subprocess.run(command, stdout=log, stderr=log, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, timeout=300)
    found = [file for file in folder.glob(f"{name}-*/checks.json") if re.fullmatch(rf"{re.escape(name)}-\d{{4}}-.*Z", str(file.parent.relative_to(folder)))]
    worst = {}
    for check in (check for file in found for check in json.loads(file.read_text())):
        status = check["status"]
        if status in RANK and (check["id"] not in worst or RANK[status] < RANK[worst[check["id"]]]):
            worst[check["id"]] = status
    return worst


def covered(listed):
    """Every authorization scenario of the suite is listed once, as run or as left out."""
    said = subprocess.run([NODE, str(SUITE), "list"], capture_output=True, text=True, timeout=60).stdout
    names = re.findall(r"^ *- (auth/\S+)", said, re.MULTILINE)
    run, out = [entry["name"] for entry in listed["scenario"]], [entry["scenario"] for entry in listed["left_out"]]
    times = {name: run.count(name) + sum(fnmatch(name, glob) for glob in out) for name in names}
    problems = [f"listed {count} times, not once: {name}" for name, count in times.items() if count != 1]
    problems += [f"not a scenario of the suite: {name}" for name in run if name not in names]
    problems += [f"matches nothing: {glob}" for glob in out if not any(fnmatch(name, glob) for name in names)]
    return problems + [f"without a reason: {entry}" for entry in listed["left_out"] if not entry.get("reason")]


def judge(name, entry, passing, failing):
    """Reality against the list, in both directions: what passes has to, what fails is listed with its reason."""
    expected, needed = set(entry.get("not_met", [])), set(entry["met"])
    problems = [f"{name}: not met: {check}" for check in sorted((failing | needed) - expected - passing)]
    problems += [f"{name}: listed as not met, but met: {check}" for check in sorted(expected - failing)]
    problems += [f"{name}: met, but not listed: {check}" for check in sorted(passing - needed)]
    if expected and not entry.get("reason"):
        problems.append(f"{name}: without a reason")
    return problems


sys.exit(main())
