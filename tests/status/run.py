"""The status page in headless Chromium: a gateway with good, dead and hostile servers, looked at by page.mjs."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processes import CACHE, NODE, PATIENCE, Processes, report

HERE = Path(__file__).resolve().parent
KEY = "a-key-of-this-test-and-nothing-else"
TOKEN = "a-token-of-this-test"
CONFIG = """
[gateway]
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"
[admin]
token = "{token}"
[[endpoint]]
path = "/mcp"
[[endpoint]]
path = "/hostile"
servers = ["hostile"]
prefix = false
[[server]]
name = "demo"
owner = "team@example.com"
command = ["gatehouse", "demo", "--stdio", "--tools", "8"]
[[server]]
name = "old"
command = ["gatehouse", "demo", "--stdio", "--era", "legacy"]
[[server]]
name = "gone"
url = "http://127.0.0.1:9/mcp"
[[server]]
name = "hostile"
url = "{hostile}"
timeout = "2s"
[auth]
[[auth.key]]
name = "load"
sha256 = "{digest}"
claims = {{}}
[[grant]]
servers = ["demo", "old", "hostile", "gone"]
tools = ["echo", "add", "fail", "crash", "toggle", "slow", "extra_*", "<*", "plain", "?evil*", "xxx*"]
"""


def main():
    problems, checked = [], 0
    with Processes() as processes:
        hostile = processes.start("status-hostile", [NODE, str(HERE / "hostile.mjs")], r"http://\S+", stream="stdout")[0]
        config = CONFIG.format(token=TOKEN, hostile=hostile, digest=sha256(KEY.encode()).hexdigest())
        public, admin = processes.gateway("status", config)
        told = {"public": public, "admin": admin, "key": KEY, "token": TOKEN, "shots": str(CACHE / "status")}
        looked = subprocess.run([NODE, str(HERE / "page.mjs"), json.dumps(told)], stdout=subprocess.PIPE, text=True, timeout=4 * PATIENCE)
        for line in looked.stdout.splitlines():
            print(line)
            checked += line.startswith(("ok ", "not ok "))
            if line.startswith("not ok "):
                problems.append(line)
        if not checked or looked.returncode not in (0, 1) or (looked.returncode == 1 and not problems):
            problems.append(f"page.mjs ended with {looked.returncode} after {checked} checks")
            checked += 1
    problems += [f"still running after the test: {process}" for process in processes.left_behind]
    report(problems, checked)
    return bool(problems)


sys.exit(main())
