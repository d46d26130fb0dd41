"""Runs the official suite in both revisions against a server of either era, directly and through the gateway, and with its own
server behind the gateway: never worse than directly, and every failure on the list."""

import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import suite
from processes import CACHE, NODE, PYTHON, TESTS, Processes, report, table

HERE = Path(__file__).resolve().parent
LIST = TESTS / "conformance-expected.toml"
FIXTURE = CACHE / "target-fixture/debug/conformance-server"
ERAS = {"2025-11-25": "legacy", "2026-07-28": "modern"}
HEADERS = ["http-standard-headers", "http-custom-headers", "http-invalid-tool-headers"]
SCHEMAS = ["json-schema-2020-12-preservation"]
SCENARIOS = {
    "2025-11-25": ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry", *SCHEMAS],
    "2026-07-28": ["tools_call", "request-metadata", "sep-2322-client-request-state", *HEADERS, "json-schema-ref-no-deref", *SCHEMAS],
}

CONFIG = """
[gateway]
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"
"""
SERVER = """
[[endpoint]]
path = "/mcp/{era}"
servers = ["{era}"]
prefix = false

[[server]]
name = "{era}"
url = "{url}"
required = true
"""


def main():
    listed = tomllib.loads(LIST.read_text())
    runs, problems = {}, []
    with Processes() as processes:
        bars, through = server_legs(processes)
        problems += processes.left_behind
    for (revision, era), found in through.items():
        runs[f"suite {revision}, {era} server"] = (bars[revision], found)
    for (revision, mode), (bar, found) in client_legs().items():
        runs[f"server {revision}, {mode} client"] = (bar, found)
    for entry in listed.get("left_out", []):
        print(f"left out: {entry['run']}: {entry['scenario']}: {' '.join(entry['reason'].split())}")
        runs[entry["run"]] = [without(side, entry["scenario"]) for side in runs[entry["run"]]]
    short = {}
    for name, (bar, found) in runs.items():
        short[name] = {key for key in bar.keys() | found.keys() if suite.falls_short(bar.get(key), found.get(key))}
        problems += [f"{name}: directly {key} fails: {message}" for key, (status, message) in bar.items() if status == "FAILURE"]
    summary(runs, short)
    problems += compare(runs, short, listed)
    report(problems, sum(len(bar.keys() | found.keys()) for bar, found in runs.values()))
    return bool(problems)


def without(checks, pattern):
    return {key: value for key, value in checks.items() if not fnmatch(key[0], pattern)}


def server_legs(processes):
    """The bar by revision, from the server of the same era; what is reached through us by revision and era of the server."""
    urls = {era: processes.start(f"fixture-{era}", [str(FIXTURE), era], r"http\S+", stream="stdout")[0] for era in ERAS.values()}
    bars = {revision: suite.server(f"direct-{revision}", urls[era], revision) for revision, era in ERAS.items()}
    config = CONFIG + "".join(SERVER.format(era=era, url=url) for era, url in urls.items())
    gateway, _ = processes.gateway("gateway-conformance", config)
    through = {}
    for revision in ERAS:
        for era in urls:
            through[revision, era] = suite.server(f"{revision}-{era}", f"{gateway}/mcp/{era}", revision)
    return bars, through


def client_legs():
    """By revision of the suite's server and era of the client: what the client does directly in that revision, and through us."""
    direct, through = [NODE, str(HERE / "client.mjs")], [PYTHON, str(HERE / "chain.py")]

    def leg(job):
        revision, scenario, mode = job
        label = f"{revision}-{scenario}-{mode}"
        return suite.client(label, scenario, revision, [*(direct if mode == "direct" else through), {"direct": "auto"}.get(mode, mode)])

    jobs = [(revision, name, mode) for revision, names in SCENARIOS.items() for name in names for mode in ("direct", "auto", "legacy")]
    found = {}
    with ThreadPoolExecutor(3) as pool:
        for (revision, _, mode), checks in zip(jobs, pool.map(leg, jobs)):
            found.setdefault((revision, mode), {}).update(checks)
    names = {"auto": "modern", "legacy": "legacy"}
    return {(revision, names[mode]): (found[revision, "direct"], found[revision, mode]) for revision in ERAS for mode in names}


def summary(runs, short):
    """A line for each run, and below it one for each scenario that falls short."""
    rows = [("run", "bar", "through", "")]
    for name, (bar, found) in runs.items():
        rows.append((name, f"{suite.good(bar)}/{len(bar)}", f"{suite.good(found)}/{len(found)}", f"{len(short[name]) or 'none'} short"))
        for scenario in sorted({scenario for scenario, _ in short[name]}):
            sides = [{key: value for key, value in side.items() if key[0] == scenario} for side in (bar, found)]
            counts = [f"{suite.good(side)}/{len(side)}" for side in sides]
            rows.append((f"  {scenario}", *counts, f"{sum(key[0] == scenario for key in short[name])} short"))
    table(rows)


def compare(runs, short, listed):
    """Reality against the list, in both directions."""
    expected = {(entry["run"], entry["scenario"], check) for entry in listed.get("expected", []) for check in entry["checks"]}
    real = {(name, *key) for name, keys in short.items() for key in keys}
    message = lambda name, *key: runs[name][1].get(key, ("", "this check is missing"))[1][:300]
    unlisted = [f"not listed: {': '.join(key)}: {message(*key)}" for key in sorted(real - expected)]
    stale = [f"listed, but passes: {': '.join(key)}" for key in sorted(expected - real)]
    unexplained = [f"listed without a reason: {entry['scenario']}" for entry in listed.get("expected", []) if not entry.get("reason")]
    return unlisted + stale + unexplained


sys.exit(main())
