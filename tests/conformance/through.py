"""The client that the suite's authorization scenarios test: a gateway with client credentials, and behind it whoever calls a tool.

The suite starts this with its server's address and judges what that server and its authorization server see."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import modern
from processes import BINARY

CONFIG = """
[gateway]
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"

[[endpoint]]
path = "/mcp"
servers = ["suite"]
prefix = false

[[server]]
name = "suite"
url = {url}
[server.credentials]
kind = "client_credentials"
client_id = {client_id}
{secret}
"""


def main():
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    quoted = json.dumps  # JSON's strings are TOML's
    key = context.get("private_key_pem")
    secret = f"private_key = {quoted(key)}" if key else f"client_secret = {quoted(context.get('client_secret', 'secret'))}"
    config = CONFIG.format(url=quoted(sys.argv[-1]), client_id=quoted(context.get("client_id", "gateway")), secret=secret)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gatehouse.toml")
        path.write_text(config, encoding="utf-8")
        return through(path)


def through(path):
    """Calls a tool through a gateway with this configuration; 1 if that fails."""
    gateway = subprocess.Popen([BINARY, "serve", "--config", str(path)], stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGTERM, lambda *_: gateway.terminate() or sys.exit(143))
    try:
        for line in gateway.stderr:
            sys.stderr.write(line)
            if '"listening"' in line:
                break
        else:
            return 2
        entry = json.loads(line)
        url = f"http://{ {**entry, **entry.get('fields', {})}['listen'] }/mcp"
        asked = [ask(url, "tools/list", {}), ask(url, "tools/call", {"name": "test-tool", "arguments": {}})]
        return int(any("result" not in answer or answer["result"].get("isError") for answer in asked))
    finally:
        gateway.terminate()
        sys.stderr.write(gateway.stderr.read())
        gateway.wait()


def ask(url, method, params):
    """One modern request; its answer, whatever it is."""
    answer = modern.last(modern.answered(modern.request(url, method, params, params.get("name"))))
    print(method, json.dumps(answer)[:500])
    return answer


sys.exit(main())
