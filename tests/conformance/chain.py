"""The client that the suite starts, with a gateway in the middle: chain.py auto|legacy URL. The suite's server is at URL."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processes import NODE, PATIENCE, Processes

CLIENT = str(Path(__file__).resolve().parent / "client.mjs")
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
url = "{url}"
required = true
"""


def main(mode, url):
    # The suite's server listens there and says `localhost`.
    parts = urlsplit(url)
    url = parts._replace(netloc=f"127.0.0.1:{parts.port}").geturl()
    with Processes() as processes:
        gateway, _ = processes.gateway(f"gateway-chain-{parts.port}", CONFIG.format(url=url))
        # Not our own loading of Node: the suite's preload says where it listens.
        env = {key: value for key, value in os.environ.items() if key != "NODE_OPTIONS"}
        code = subprocess.run([NODE, CLIENT, mode, f"{gateway}/mcp"], timeout=PATIENCE, env=env).returncode
    return code or bool(processes.left_behind)


sys.exit(main(*sys.argv[1:]))
