#!/usr/bin/env python3
"""The gateway beside nginx in front of the same server: CPU time per 10,000 answers, memory, latency.

    benches/load/run.py [--short] [--gatehouse FILE] [--rounds N] [--seconds S] [--write]

Builds what it needs, starts everything on free ports, alternates nginx and gatehouse round by round, and prints a
table; --write puts it into benches/README.md. CPU time per answer is what noise spares: it is the headline, as the
ratio to nginx of the same round. Needs Debian's nginx (installed when missing and possible), Linux, Python 3.11.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- load: begin -->", "<!-- load: end -->"

# name, path behind the server, operation, bytes, connections, in the short form too
CELLS = [
    ("call 1 KB, 1 connection", "/t/200/mcp", "echo", 1024, 1, False),
    ("call 1 KB, 16 connections", "/t/200/mcp", "echo", 1024, 16, True),
    ("call 1 KB, 64 connections", "/t/200/mcp", "echo", 1024, 64, False),
    ("call 1 KB answered by events, 16", "/t/200/sse/mcp", "echo", 1024, 16, False),
    ("result 100 KB, 16 connections", "/t/200/mcp", "size", 100_000, 16, True),
    ("result 1 MB, 1 connection", "/t/200/mcp", "size", 1_000_000, 1, False),
    ("result 1 MB, 16 connections", "/t/200/mcp", "size", 1_000_000, 16, True),
    ("list of 200 tools, 16 connections", "/t/200/mcp", "list", 0, 16, True),
]
CONFIG = """
[gateway]
listen = "127.0.0.1:{listen}"
admin_listen = "127.0.0.1:{admin}"
max_streams = 100000
[[server]]
name = "echo"
prefix = "e"
url = "http://127.0.0.1:{echo}{path}"
protocol = "modern"
max_concurrency = 256
max_result = "16MiB"
[telemetry]
log = "warn"
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_port(port, process):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    sys.exit(f"nothing listens on port {port}")


def build(profile_folder):
    run = lambda *command, **more: subprocess.run(command, check=True, **more)
    target = os.environ.get("CARGO_TARGET_DIR", HERE / "target")
    run("cargo", "build", "--release", "--locked", "--quiet", cwd=HERE)
    if profile_folder is None:
        run("cargo", "build", "--release", "--locked", "--quiet", "--bin", "gatehouse", cwd=ROOT)
    return Path(target) / "release"


def nginx_binary():
    found = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "-qq", "update"])
        subprocess.run(["apt-get", "-qq", "install", "-y", "nginx-light"], stdout=subprocess.DEVNULL)
        found = shutil.which("/usr/sbin/nginx")
    return found or sys.exit("nginx is missing and could not be installed")


class Bench:
    def __init__(self, tools, gatehouse, folder):
        self.tools, self.gatehouse, self.folder = tools, gatehouse, Path(folder)
        self.running = []
        self.echo = free_port()
        self.echo_process = self.start([str(tools / "echo"), "--port", str(self.echo)], self.echo)
        self.nginx = free_port()
        text = (HERE / "nginx.conf").read_text()
        text = text.replace("@ECHO@", str(self.echo)).replace("@NGINX@", str(self.nginx))
        (self.folder / "nginx.conf").write_text(text)
        command = [nginx_binary(), "-p", folder, "-c", "nginx.conf", "-e", "error.log", "-g", "daemon off;"]
        master = self.start(command, self.nginx)
        # The master only waits; its child is the worker.
        children = Path(f"/proc/{master.pid}/task/{master.pid}/children").read_text().split()
        self.nginx_pid = int(children[0])

    def start(self, command, port):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.running.append(process)
        await_port(port, process)
        return process

    def start_gatehouse(self, path):
        listen, admin = free_port(), free_port()
        file = self.folder / "gatehouse.toml"
        file.write_text(CONFIG.format(listen=listen, admin=admin, echo=self.echo, path=path))
        process = self.start([str(self.gatehouse), "serve", "--config", str(file)], listen)
        time.sleep(0.5)  # its first walk of the lists
        return process, listen

    def stop(self, process):
        self.running.remove(process)
        process.terminate()
        process.wait(timeout=60)

    def close(self):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait(timeout=60)

    def load(self, port, path, op, size, connections, seconds, pid, tool="echo"):
        command = [self.tools / "generator", "--url", f"http://127.0.0.1:{port}{path}", "--op", op, "--tool", tool]
        command += ["--size", str(size), "--connections", str(connections), "--seconds", str(seconds), "--pid", str(pid)]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        line = json.loads(done.stdout or '{"error": "it said nothing"}')
        if "error" in line:
            sys.exit(f"{op} at {port}{path}: {line}")
        return line


def measure(bench, cell, rounds, seconds):
    name, path, op, size, connections, _ = cell
    pairs = []
    for _ in range(rounds):
        floor = bench.load(bench.nginx, path, op, size, connections, seconds, bench.nginx_pid)
        process, listen = bench.start_gatehouse(path)
        ours = bench.load(listen, "/mcp", op, size, connections, seconds, process.pid, "e_echo")
        bench.stop(process)
        pairs.append((floor, ours))
    return name, pairs


def row(name, pairs):
    middle = lambda side, key: statistics.median(pair[side][key] for pair in pairs)
    ratios = sorted(ours["cpu_per_10k"] / floor["cpu_per_10k"] for floor, ours in pairs)
    added = statistics.median(ours["p50_us"] - floor["p50_us"] for floor, ours in pairs)
    memory = max(ours["memory_mb"] for _, ours in pairs)
    return (
        f"| {name} | {middle(0, 'cpu_per_10k'):.3f} | {middle(1, 'cpu_per_10k'):.3f} "
        f"| **{statistics.median(ratios):.2f}** ({ratios[0]:.2f}–{ratios[-1]:.2f}) "
        f"| {middle(0, 'per_second'):.0f} | {middle(1, 'per_second'):.0f} | {added:+.0f} | {memory:.0f} |"
    )


def streams(bench, count):
    bare = bench.load(bench.echo, "/mcp", "listen", 0, count, 2, bench.echo_process.pid)
    process, listen = bench.start_gatehouse("/t/10/mcp")
    idle = bench.load(listen, "/mcp", "listen", 0, count, 2, process.pid)
    bench.stop(process)
    line = lambda who, held: (
        f"| {who} | {held['streams']} | {held['bytes_per_stream'] / 1024:.1f} | {held['memory_mb']:.0f} "
        f"| {held['idle_cpu'] * 100:.2f} |"
    )
    return [line("bare hyper server", bare), line("gatehouse", idle)]


def table(bench, args):
    lines = [
        "| work | nginx, CPU s / 10,000 | gatehouse | ratio (spread) | nginx, answers / s | gatehouse | added p50, µs | memory, MB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for cell in CELLS:
        if args.short and not cell[-1]:
            continue
        lines.append(row(*measure(bench, cell, args.rounds, args.seconds)))
        print(lines[-1], flush=True)
    lines += ["", "| idle listen streams | held | KB each | memory, MB | CPU, % of a core |"]
    lines += ["| --- | ---: | ---: | ---: | ---: |", *streams(bench, 200 if args.short else args.streams)]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the four most telling cells, under a minute")
    parser.add_argument("--gatehouse", help="a binary to measure, instead of building one")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="per round and side")
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--write", action="store_true", help="put the table into benches/README.md")
    args = parser.parse_args()
    args.rounds = args.rounds or (2 if args.short else 3)
    args.seconds = args.seconds or (1.5 if args.short else 3)
    tools = build(args.gatehouse)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    gatehouse = Path(args.gatehouse) if args.gatehouse else target / "release" / "gatehouse"
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(tools, gatehouse, folder)
        try:
            lines = table(bench, args)
        finally:
            bench.close()
    load = os.getloadavg()[0]
    today = datetime.date.today().isoformat()
    head = f"{today}, {os.cpu_count()} cores, {platform.machine()}, load of the machine at the end {load:.1f}, "
    text = "\n".join([head + f"{args.rounds} rounds of {args.seconds} s:", "", *lines])
    print("\n" + text)
    if args.write:
        before, rest = README.read_text().split(BEGIN)
        _, after = rest.split(END)
        README.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
