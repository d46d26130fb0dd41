#!/usr/bin/env python3
"""The gateway beside nginx in front of the same server: CPU time per 10,000 answers, memory, latency.

    benches/load/run.py [--short] [--gatehouse FILE] [--rounds N] [--seconds S] [--only TEXT] [--write]

Builds what it needs, starts everything on free ports, alternates nginx, the bare gateway and the gateway with everything
on round by round, and prints a table; --write puts it into benches/README.md. CPU time per answer is what noise spares: it
is the headline, as the ratio to nginx of the same round. Needs Debian's nginx (installed when missing and possible),
openssl, Linux, Python 3.11.
"""

import argparse
import datetime
import os
import platform
import statistics
import tempfile

import rig

# name, path behind the server, operation, bytes, connections, era, in the short form too
CELLS = [
    ("call 1 KB, 1 connection", "/t/{}/mcp", "echo", 1024, 1, "modern", False),
    ("call 1 KB, 16 connections", "/t/{}/mcp", "echo", 1024, 16, "modern", True),
    ("call 1 KB, 64 connections", "/t/{}/mcp", "echo", 1024, 64, "modern", False),
    ("legacy client, call 1 KB, 16", "/t/{}/mcp", "echo", 1024, 16, "legacy", False),
    ("call 1 KB answered by events, 16", "/t/{}/sse/mcp", "echo", 1024, 16, "modern", False),
    ("result 100 KB, 16 connections", "/t/{}/mcp", "size", 100_000, 16, "modern", True),
    ("result 1 MB, 1 connection", "/t/{}/mcp", "size", 1_000_000, 1, "modern", False),
    ("result 1 MB, 16 connections", "/t/{}/mcp", "size", 1_000_000, 16, "modern", True),
    ("list of 200 tools, 16 connections", "/t/{}/mcp", "list", 0, 16, "modern", True),
]
HEAD = [
    "| work | nginx, CPU s / 10,000 | bare, ratio (spread) | everything on, ratio (spread) "
    "| answers / s: nginx, bare, on | added p50, µs: bare, on | memory, MB: idle and under load, bare; on |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
]


def ours(bench, cell, full, seconds):
    _, path, op, size, connections, era, _ = cell
    # 200 tools in each list; 500 behind what is called with everything on.
    tools = [200] if not full else [20] * 10 if op == "list" else [50] * 10
    process, listen, _ = bench.start_gatehouse([path.format(n) for n in tools], full=full)
    idle = rig.resident(process)
    more = {"tokens": bench.tokens} if full else {}
    more |= dict(op=op, size=size, connections=connections, seconds=seconds, mode=era, tool="s0_echo", pid=process.pid)
    line = bench.load(listen, "/mcp", **more)
    bench.stop(process)
    return line | {"idle_mb": idle}


def measure(bench, cell, rounds, seconds):
    _, path, op, size, connections, _, _ = cell
    found = []
    for _ in range(rounds):
        floor = dict(op=op, size=size, connections=connections, seconds=seconds, tokens=bench.tokens)
        nginx = bench.load(bench.nginx, path.format(200), pid=bench.nginx_pid, **floor)
        found.append((nginx, ours(bench, cell, False, seconds), ours(bench, cell, True, seconds)))
    return found


def row(name, found):
    middle = lambda side, key: statistics.median(three[side][key] for three in found)
    most = lambda side, key: max(three[side][key] for three in found)

    def ratio(side):
        all = sorted(three[side]["cpu_per_10k"] / three[0]["cpu_per_10k"] for three in found)
        return f"**{statistics.median(all):.2f}** ({all[0]:.2f}–{all[-1]:.2f})"

    rates = ", ".join(f"{middle(side, 'per_second'):.0f}" for side in range(3))
    memory = lambda side: f"{most(side, 'idle_mb'):.0f} and {most(side, 'memory_mb'):.0f}"
    added = lambda side: statistics.median(three[side]["p50_us"] - three[0]["p50_us"] for three in found)
    return (
        f"| {name} | {middle(0, 'cpu_per_10k'):.3f} | {ratio(1)} | {ratio(2)} "
        f"| {rates} | {added(1):+.0f}, {added(2):+.0f} | {memory(1)}; {memory(2)} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the four most telling cells, about a minute")
    parser.add_argument("--gatehouse", help="a binary to measure, instead of building one")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="per round and side")
    parser.add_argument("--only", default="", help="cells whose name holds this")
    parser.add_argument("--write", action="store_true", help="put the table into benches/README.md")
    args = parser.parse_args()
    args.rounds = args.rounds or (1 if args.short else 3)
    args.seconds = args.seconds or (1.5 if args.short else 2)
    tools, gatehouse = rig.build(args.gatehouse)
    lines = [*HEAD]
    with tempfile.TemporaryDirectory() as folder:
        bench = rig.Bench(tools, gatehouse, folder)
        try:
            for cell in CELLS:
                if args.only in cell[0] and (cell[-1] or not args.short):
                    lines.append(row(cell[0], measure(bench, cell, args.rounds, args.seconds)))
                    print(lines[-1], flush=True)
        finally:
            bench.close()
    load = os.getloadavg()[0]
    head = f"{datetime.date.today()}, {os.cpu_count()} cores, {platform.machine()}, load of the machine at the end {load:.1f}, "
    text = "\n".join([head + f"{args.rounds} rounds of {args.seconds} s:", "", *lines])
    print("\n" + text)
    if args.write:
        rig.write("load", text)


if __name__ == "__main__":
    main()
