"""Runs the official suite against the fixture and against the gateway in front of it: never worse, and every failure on the list."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processes import CACHE, LOOPBACK, NODE, TESTS, Processes, report, table

REVISION = "2026-07-28"
LIST = TESTS / "conformance-expected.toml"
FIXTURE = CACHE / "target-fixture/debug/conformance-server"
SUITE = TESTS / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
RANK = {"FAILURE": 0, "WARNING": 1, "SKIPPED": 2, "SUCCESS": 3, "INFO": 3}

CONFIG = """
[gateway]
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"

[[endpoint]]
path = "/mcp"
servers = ["fixture"]
prefix = false

[[server]]
name = "fixture"
url = "{url}"
required = true
"""


def main():
    listed = tomllib.loads(LIST.read_text())
    left_out = listed.get("left_out", [])
    with Processes() as processes:
        direct_url = processes.start("fixture", [str(FIXTURE)], r"http\S+", stream="stdout")[0]
        direct = suite("direct", direct_url, left_out)
        gateway_url, _ = processes.gateway("gateway-conformance", CONFIG.format(url=direct_url))
        through = suite("through", f"{gateway_url}/mcp", left_out)
    failing = {key for key in direct.keys() | through.keys() if falls_short(direct.get(key), through.get(key))}
    for entry in left_out:
        print(f"left out: {entry['scenario']}: {entry['reason']}")
    problems = summary(direct, through, failing) + compare(failing, listed, through)
    problems += [f"still running after the test: {process}" for process in processes.left_behind]
    report(problems, len(direct.keys() | through.keys()))
    return bool(problems)


def suite(label, url, left_out):
    """Runs all scenarios of the revision; returns the worst status by (scenario, check)."""
    results = CACHE / "conformance" / label
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    command = [NODE, *LOOPBACK, str(SUITE), "server", "--url", url, "--requirements", REVISION, "-o", str(results)]
    with open(results / "suite.log", "w") as log:
        subprocess.run(command, stdout=log, stderr=log, timeout=600)  # its exit code counts what we leave out as well
    worst = {}
    for file in sorted(results.glob("server-*/checks.json")):
        scenario = re.fullmatch(r"server-(.*)-\d{4}-\d\d-\d\dT[-\d]+Z", file.parent.name)[1]
        if any(fnmatch(scenario, entry["scenario"]) for entry in left_out):
            continue
        for check in json.loads(file.read_text()):
            key = (scenario, f"{check['id']}/{check['name']}")
            status, message = check["status"], check.get("errorMessage", "")
            if key not in worst or RANK[status] < RANK[worst[key][0]]:
                worst[key] = (status, message)
    if len({scenario for scenario, _ in worst}) < 30:
        raise RuntimeError(f"the suite did not run: see {results}/suite.log")
    return worst


def falls_short(direct, through):
    """A failure through us, or a check that a direct connection does better in (a check that vanished included)."""
    if through is None:
        return RANK[direct[0]] > RANK["WARNING"]
    return through[0] == "FAILURE" or (direct is not None and RANK[through[0]] < RANK[direct[0]])


def summary(direct, through, failing):
    """Prints a line per scenario; returns what is wrong with the fixture itself."""
    rows = [("scenario", "direct", "through", "")]
    for scenario in sorted({scenario for scenario, _ in direct.keys() | through.keys()}):
        row = [scenario]
        for side in (direct, through):
            statuses = [status for (name, _), (status, _) in side.items() if name == scenario]
            row.append(f"{sum(RANK[status] == 3 for status in statuses)}/{len(statuses)}")
        short = sum(name == scenario for name, _ in failing)
        rows.append((*row, f"{short} short" if short else ""))
    total = [f"{sum(RANK[status] == 3 for status, _ in side.values())}/{len(side)}" for side in (direct, through)]
    table([*rows, ("in all", *total, f"{len(failing)} short" if failing else "")])
    return [f"the fixture itself fails {key}: {message}" for key, (status, message) in direct.items() if status == "FAILURE"]


def compare(failing, listed, through):
    """Reality against the list, in both directions."""
    expected = {(entry["scenario"], check) for entry in listed.get("expected", []) for check in entry["checks"]}
    unlisted = [f"not listed: {key[0]} {key[1]}: {through.get(key, ('', 'check is missing'))[1][:300]}" for key in sorted(failing - expected)]
    stale = [f"listed, but passes: {key[0]} {key[1]}" for key in sorted(expected - failing)]
    unexplained = [f"listed without a reason: {entry['scenario']}" for entry in listed.get("expected", []) if not entry.get("reason")]
    return unlisted + stale + unexplained


sys.exit(main())
