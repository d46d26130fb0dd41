#!/usr/bin/env python3
"""What grows when something else grows, starting and stopping, and too much load.

    benches/load/scale.py [--gatehouse FILE] [--only NAMES] [--quick] [--write]

Each table measures the same call (1 KB there and back, 16 connections) while one number rises, beside nginx at the same
call; --write puts the tables into benches/README.md. About fifteen minutes; --quick leaves out the largest numbers.
"""

import argparse
import datetime
import os
import signal
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import rig

SECONDS = 1


def call(bench, port, process, **more):
    options = dict(op="echo", tool="s0_echo", size=1024, connections=16, seconds=SECONDS, pid=process.pid)
    return bench.load(port, "/mcp", **(options | more))


def middle(bench, port, process, **more):
    """The middle one of three, by its ratio to nginx at its ordinary work just before: machines change their speed."""
    floor = dict(op="echo", size=1024, connections=16, seconds=SECONDS, pid=bench.nginx_pid)
    runs = []
    for _ in range(3):
        nginx = bench.load(bench.nginx, "/t/50/mcp", **floor)
        line = call(bench, port, process, **more)
        runs.append(line | {"ratio": line["cpu_per_10k"] / nginx["cpu_per_10k"]})
    return sorted(runs, key=lambda run: run["ratio"])[1]


class Table:
    """Rows whose first is what the others are held against."""

    def __init__(self, title, unit, more=""):
        self.lines = [f"**{title}**", "", f"| {unit} | CPU s / 10,000 calls | × nginx | against the first | p50, µs | memory, MB |{more}"]
        self.lines += [f"| ---: | ---: | ---: | ---: | ---: | ---: |{' ---: |' if more else ''}"]
        self.first = None

    def add(self, label, line, more=""):
        cost, ratio = line["cpu_per_10k"], line["ratio"]
        self.first = self.first or ratio
        grown, p50, memory = ratio / self.first, line["p50_us"], line["memory_mb"]
        self.lines.append(f"| {label} | {cost:.3f} | {ratio:.2f} | {grown:.2f} | {p50:.0f} | {memory:.0f} |{more}")
        print(self.lines[-1], flush=True)


def series(bench, title, unit, numbers, paths, **setting):
    """A table against what the configuration holds: `paths(n)` are its servers, `setting(n)` the rest."""
    table = Table(title, unit)
    for number in numbers:
        more = {name: value(number) if callable(value) else value for name, value in setting.items()}
        process, listen, _ = bench.start_gatehouse(paths(number), **more)
        tokens = {"tokens": bench.tokens} if more.get("full") else {}
        line = middle(bench, listen, process, **tokens)
        table.add(f"{number:,}", line)
        bench.stop(process)
    return table.lines


def servers(bench, up):
    return series(bench, "Servers (10 tools each)", "servers", up(1, 10, 100, 300), lambda n: ["/t/10/mcp"] * n)


def tools(bench, up):
    return series(bench, "Tools (1 KB each, one server)", "tools", up(10, 200, 2000, 20_000), lambda n: [f"/t/{n}/mcp"])


def grants(bench, up):
    one = lambda n: ["/t/50/mcp"] * 10
    return series(bench, "Grants (the last one matches)", "grants", up(1, 10, 100, 1000), one, full=True, grants=lambda n: n)


def principals(bench, up):
    table = Table("Principals (RS256 tokens, taken in turn)", "principals")
    all = bench.folder / "all-tokens"
    for number in up(1, 100, 1000, 10_000):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            all.write_text("".join(pool.map(lambda n: bench.issuer.token(f"user-{n}") + "\n", range(number))))
        process, listen, _ = bench.start_gatehouse(["/t/50/mcp"] * 10, full=True)
        # Every token is verified once, before anything is counted.
        seconds = 1 + number / 1000
        call(bench, listen, process, tokens=all, seconds=seconds)
        line = middle(bench, listen, process, tokens=all)
        table.add(f"{number:,}", line)
        bench.stop(process)
    return table.lines


def held(bench, up, title, unit, op, mode):
    table = Table(title, unit, " KB each |")
    for number in up(0, 100, 1000, 9000 if op == "listen" else 10_000):
        process, listen, _ = bench.start_gatehouse(["/t/50/mcp"])
        each, holder = 0, None
        if number:
            options = dict(op=op, mode=mode, connections=number, seconds=SECONDS * 12, pid=process.pid)
            command = bench.command(listen, "/mcp", **options)
            holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if holder.stderr.readline().strip() != "held":
                raise SystemExit(f"{title}: {holder.communicate()}")
        line = middle(bench, listen, process)
        if holder:
            said = rig.json.loads(holder.communicate()[0])
            each = said["bytes_each"] / 1024
        table.add(f"{number:,}", line, f" {each:.1f} |")
        bench.stop(process)
    return table.lines


def streams(bench, up):
    return held(bench, up, "Idle listen streams", "streams", "listen", "modern")


def sessions(bench, up):
    return held(bench, up, "Idle legacy sessions", "sessions", "sessions", "legacy")


def concurrent(bench, up):
    table = Table("Calls at once (one connection each)", "calls")
    for number in up(1, 16, 256, 2000):
        process, listen, _ = bench.start_gatehouse(["/t/50/mcp"], permits=4096, queue=4096)
        line = middle(bench, listen, process, connections=number)
        table.add(f"{number:,}", line)
        bench.stop(process)
    return table.lines


def sizes(bench, up):
    lines = ["**Size of a result** (4 connections; nginx beside it)", ""]
    lines += ["| bytes | nginx, CPU s / GB | gatehouse | ratio | memory, MB |", "| ---: | ---: | ---: | ---: | ---: |"]
    for size in up(1000, 10_000, 100_000, 1_000_000, 10_000_000, 64_000_000):
        process, listen, _ = bench.start_gatehouse(["/t/50/mcp"])
        options = dict(op="size", size=size, connections=4, seconds=max(SECONDS, size / 10_000_000))
        floor = bench.load(bench.nginx, "/t/50/mcp", pid=bench.nginx_pid, **options)
        line = call(bench, listen, process, **options)
        cost = lambda side: side["cpu_per_10k"] / 10_000 / (size / 1e9)
        lines.append(
            f"| {size:,} | {cost(floor):.2f} | {cost(line):.2f} | {cost(line) / cost(floor):.2f} | {line['memory_mb']:.0f} |"
        )
        print(lines[-1], flush=True)
        bench.stop(process)
    return lines


def starts(bench, _):
    readies, stops, memory = [], [], 0
    for _ in range(9):
        file, _, admin = bench.configuration(["/t/50/mcp"] * 20)
        began = time.perf_counter()
        process = subprocess.Popen([bench.gatehouse, "serve", "--config", file], stderr=subprocess.DEVNULL)
        rig.until("it is not ready", lambda: rig.ready(admin), process)
        readies.append((time.perf_counter() - began) * 1e3)
        memory = rig.resident(process)
        began = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        stops.append((time.perf_counter() - began) * 1e3)
    size = Path(bench.gatehouse).stat().st_size / 1e6
    middle = statistics.median
    return [
        "**Start and stop** (20 servers of 50 tools, all reachable; 9 times)",
        "",
        "| ready after, ms (most) | ended after SIGTERM, ms (most) | memory, MB | binary, MB |",
        "| ---: | ---: | ---: | ---: |",
        f"| {middle(readies):.0f} ({max(readies):.0f}) | {middle(stops):.0f} ({max(stops):.0f}) | {memory:.0f} | {size:.1f} |",
    ]


def overload(bench, _):
    lines = [
        "**Too much** (a server that takes 20 ms a call, 32 at once: 1,600 a second; queue of 64)",
        "",
        "| offered / s | answered / s | refused / s | answered p50, p99, ms | refused p50, p99, ms |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for rate in (160, 1600, 3200, 6400):
        process, listen, _ = bench.start_gatehouse(["/t/50/mcp"], permits=32, queue=64)
        options = dict(op="echo", tool="s0_echo", size=1024, delay=20, seconds=5, rate=rate, connections=512)
        line = bench.load(listen, "/mcp", **options)
        lines.append(
            f"| {rate:,} | {line['answered_per_second']:.0f} | {line['refused_per_second']:.0f} "
            f"| {line['answered_p50_ms']:.1f}, {line['answered_p99_ms']:.1f} "
            f"| {line['refused_p50_ms']:.1f}, {line['refused_p99_ms']:.1f} |"
        )
        print(lines[-1], flush=True)
        bench.stop(process)
    return lines


TABLES = [servers, tools, grants, principals, streams, sessions, concurrent, sizes, starts, overload]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gatehouse", help="a binary to measure, instead of building one")
    parser.add_argument("--only", help="some tables, commas between: " + ", ".join(table.__name__ for table in TABLES))
    parser.add_argument("--quick", action="store_true", help="without the largest number of each")
    parser.add_argument("--write", action="store_true", help="put the tables into benches/README.md")
    args = parser.parse_args()
    up = lambda *numbers: numbers[:-1] if args.quick else numbers
    tools_built, gatehouse = rig.build(args.gatehouse)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        bench = rig.Bench(tools_built, gatehouse, folder)
        try:
            for table in TABLES:
                if args.only is None or table.__name__ in args.only.split(","):
                    print(f"{table.__name__}:", flush=True)
                    found += [*table(bench, up), ""]
        finally:
            bench.close()
    head = f"{datetime.date.today()}, {os.cpu_count()} cores, load of the machine at the end {os.getloadavg()[0]:.1f}:"
    text = "\n".join([head, "", *found]).rstrip()
    print("\n" + text)
    if args.write:
        rig.write("scale", text)


if __name__ == "__main__":
    main()
