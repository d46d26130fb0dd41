"""Runs the official suite, as client of a server and as server of a client, and reads what it found."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processes import CACHE, LOOPBACK, NODE, PATIENCE, TESTS

SUITE = [NODE, *LOOPBACK, str(TESTS / "node_modules/@modelcontextprotocol/conformance/dist/index.js")]
RESULTS = CACHE / "conformance"
RANK = {"FAILURE": 0, "WARNING": 1, "SKIPPED": 2, "SUCCESS": 3, "INFO": 3}


def server(label, url, revision):
    """All scenarios of the revision against this server; returns the worst status and message by (scenario, check)."""
    results = fresh(label)
    run([*SUITE, "server", "--url", url, "--requirements", revision, "-o", str(results)], results, 600)
    worst = {}
    for file in sorted(results.glob("server-*/checks.json")):
        scenario = re.fullmatch(r"server-(.*)-\d{4}-\d\d-\d\dT[-\d]+Z", file.parent.name)[1]
        read(file, scenario, worst)
    if len({scenario for scenario, _ in worst}) < 30:
        raise RuntimeError(f"the suite did not run: see {results}/suite.log")
    return worst


def client(label, scenario, revision, command):
    """One scenario against this client; its own failure is a check as well."""
    results = fresh(label)
    # One core for each side is not always free: the limit is against hanging.
    limit = ["--timeout", str(PATIENCE * 1000)]
    command = [*SUITE, "client", "--command", " ".join(command), "--scenario", scenario, "--spec-version", revision, "-o", str(results), *limit]
    run(command, results, PATIENCE * 2)
    worst = {}
    files = list(results.glob("*/checks.json"))
    if not files:
        raise RuntimeError(f"the suite did not run: see {results}/suite.log")
    for file in files:
        read(file, scenario, worst)
    crashed = "CLIENT EXITED WITH ERROR" in (results / "suite.log").read_text()
    trouble = " ".join(files[0].with_name("stderr.txt").read_text().split())[-500:] if crashed else ""
    worst[scenario, "the client ends well"] = ("FAILURE" if crashed else "SUCCESS", trouble)
    return worst


def fresh(label):
    results = RESULTS / label
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    return results


def run(command, results, limit):
    with open(results / "suite.log", "w") as log:
        # Its exit code counts what we leave out as well.
        subprocess.run(command, stdout=log, stderr=log, timeout=limit, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def read(file, scenario, worst):
    """Adds the checks of one file."""
    for check in json.loads(file.read_text()):
        key = (scenario, f"{check['id']}/{check['name']}")
        status, message = check["status"], check.get("errorMessage", "")
        if key not in worst or RANK[status] < RANK[worst[key][0]]:
            worst[key] = (status, message)


def falls_short(bar, through):
    """A failure through us, or a check that a direct connection does better in (a check that vanished included)."""
    if through is None:
        return bar[0] == "SUCCESS"  # what only informs is no check
    return through[0] == "FAILURE" or (bar is not None and RANK[through[0]] < RANK[bar[0]])


def good(checks):
    return sum(RANK[status] == 3 for status, _ in checks.values())
