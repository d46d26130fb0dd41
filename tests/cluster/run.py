"""Two replicas behind nginx, with Redis: calls of both eras while replicas are restarted in turn and Redis comes and goes; limits that
hold across both; and what cannot be saved is said."""

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import modern
from processes import BINARY, CACHE, PATIENCE, ROOT, Processes, report

FOLDER = CACHE / "cluster"
CALLS = 10_000 * int(os.environ.get("GH_SCALE", "1"))
CLIENTS = 8
RESTARTS = 6  # of each replica
FORMS = {"elicitation": {}}
ACCEPT = {"action": "accept", "content": {"name": "Ada"}}
KEY = "a-key-of-this-test-and-nothing-else"
LIMITED = "another-key-of-this-test-alone"
RATE, BURST, SECONDS = 50, 10, 10  # a second, at once, and for how long it is tried

CONFIG = """
[gateway]
listen = "127.0.0.1:{port}"
admin_listen = "127.0.0.1:{admin}"
public_url = "https://mcp.example.com"
keys = ["c29tZXRoaW5nLWxvbmctZW5vdWdoLXRvLXNlYWwtd2l0aA=="]
[cluster]
redis = "redis://127.0.0.1:{redis}"
listen = "127.0.0.1:{peer}"
[[server]]
name = "demo"
url = "{demo}"
[[server]]
name = "old"
url = "{old}"
protocol = "legacy"
{limits}[auth]
[[auth.key]]
name = "load"
sha256 = "{load}"
[[auth.key]]
name = "limited"
sha256 = "{limited}"
[[grant]]
servers = ["*"]
tools = ["*"]
"""
LIMIT = """
[[limit]]
per = ["subject", "tool"]
servers = ["demo"]
tools = ["add"]
rate = "{rate}/s"
burst = {burst}
"""


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    problems, checked = [], 0
    with Processes() as processes:
        fleet = Fleet(processes)
        for check in (storm, parked, limits, ended, changes, killed):
            print(f"-- {check.__name__}", flush=True)
            found = check(fleet)
            print(*(f"{check.__name__}: {problem}" for problem in found), sep="\n", end="\n" if found else "")
            problems += [f"{check.__name__}: {len(found)} problems"] if found else []
            checked += 1
    problems += [f"still running after the test: {process}" for process in processes.left_behind]
    report(problems, checked)
    return bool(problems)


class Fleet:
    """Redis, two servers, two replicas, and nginx as deploy/ has it."""

    def __init__(self, processes):
        self.processes = processes
        ports = free_ports(10)
        self.front, self.redis, *ports = ports
        self.ports = [ports[:3], ports[3:6]]
        self.replicas, self.starts = [None, None], 0
        self.start_redis()
        self.demo = self.server("demo-modern", "modern", "--ttl-ms=3600000")
        self.old = self.server("demo-legacy", "legacy")
        for index in range(2):
            self.start(index)
        self.nginx()

    def server(self, name, era, *more):
        command = [BINARY, "demo", "--listen", "127.0.0.1:0", "--era", era, "--name", name, *more]
        listens = self.processes.start(name, command, r'"listen":"([^"]+)"')
        return f"http://{listens[1]}/mcp"

    def start_redis(self):
        command = ["redis-server", "--port", str(self.redis), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(FOLDER)]
        self.processes.start("redis", command, "Ready to accept connections", stream="stdout")
        self.redis_process = self.processes.running[-1]

    def stop_redis(self):
        self.processes.end(self.redis_process)

    def start(self, index):
        port, admin, peer = self.ports[index]
        digest = lambda key: sha256(key.encode()).hexdigest()
        limits = LIMIT.format(rate=RATE, burst=BURST)
        config = CONFIG.format(
            port=port, admin=admin, peer=peer, redis=self.redis, demo=self.demo, old=self.old, limits=limits, load=digest(KEY), limited=digest(LIMITED)
        )
        self.starts += 1
        self.processes.gateway(f"gateway-cluster-{index}-{self.starts}", config)
        self.replicas[index] = self.processes.running[-1]

    def restart(self, index):
        self.stop(index)
        self.start(index)
        # nginx takes a replica again a second after it found it gone: sooner, it would have none.
        time.sleep(1.5)

    def stop(self, index, how=signal.SIGTERM):
        self.processes.end(self.replicas[index], how)

    def nginx(self):
        certificate, key = FOLDER / "mcp.pem", FOLDER / "mcp.key"
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=mcp.example.com", "-keyout", key, "-out", certificate]
        subprocess.run(made, check=True, capture_output=True)
        text = (ROOT / "deploy/nginx/gatehouse.conf").read_text()
        for was, now in [
            ("/etc/nginx/tls/mcp.pem", certificate),
            ("/etc/nginx/tls/mcp.key", key),
            ("127.0.0.1:8081", f"127.0.0.1:{self.ports[0][0]}"),
            ("127.0.0.1:8082", f"127.0.0.1:{self.ports[1][0]}"),
            # Debian's nginx is older than `http2 on`.
            ("http2 on;", ""),
            ("listen 443 ssl;", f"listen 127.0.0.1:{self.front} ssl;"),
        ]:
            assert was in text, f"{was} is not in the example"
            text = text.replace(was, str(now))
        (FOLDER / "nginx.conf").write_text(
            f"pid {FOLDER}/nginx.pid;\nerror_log stderr notice;\ndaemon off;\nevents {{}}\nhttp {{\naccess_log {FOLDER}/access.log;\n{text}\n}}\n"
        )
        self.processes.start("nginx", ["nginx", "-c", str(FOLDER / "nginx.conf"), "-p", str(FOLDER)], "start worker process ")

    def client(self, key=KEY, index=None):
        """A client by way of nginx, or of one replica."""
        return Client(self.front if index is None else self.ports[index][0], key, index is None)

    def log(self, index):
        name = sorted((CACHE / "logs").glob(f"gateway-cluster-{index}-*.log"), key=lambda path: path.stat().st_mtime)[-1]
        return name.read_text()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Client:
    """One connection, kept; and a session of 2025-11-25 where it is wanted."""

    def __init__(self, port, key, tls):
        self.port, self.key, self.session = port, key, None
        context = ssl._create_unverified_context()
        self.connection = (
            http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
            if tls
            else http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        )

    def send(self, method, body, headers):
        headers = {"Host": "mcp.example.com", **headers}
        self.connection.request(method, "/mcp", body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    def modern(self, method, params, capabilities=None):
        name = params.get("name")
        return self.send("POST", modern.message(method, params, capabilities), modern.headers(method, name, self.key))

    def call(self, tool, arguments, **more):
        status, _, text = self.modern("tools/call", {"name": tool, "arguments": arguments, **more}, FORMS)
        return status, modern.last(text) if status == 200 else text

    def open(self, capabilities=None):
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": {"name": "load", "version": "1"}}
        status, headers, text = self.legacy("initialize", params)
        assert status == 200, (status, text)
        self.session = headers["Mcp-Session-Id"]
        return self

    def headers(self):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {self.key}"}
        return headers | ({"Mcp-Session-Id": self.session, "MCP-Protocol-Version": "2025-11-25"} if self.session else {})

    def legacy(self, method, params, id=1):
        body = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
        return self.send("POST", json.dumps(body).encode(), self.headers())

    def legacy_call(self, tool, arguments):
        status, _, text = self.legacy("tools/call", {"name": tool, "arguments": arguments})
        return status, modern.last(text) if status == 200 else text


def text_of(message):
    return message["result"]["content"][0]["text"]


class Caller(threading.Thread):
    """Calls until all have been made; keeps what was not answered as it should be."""

    def __init__(self, fleet, number, left):
        super().__init__(daemon=True)
        self.client, self.number, self.left = fleet.client(), number, left
        self.lost, self.kinds, self.slowest = [], Counter(), 0.0

    def run(self):
        self.client.open()
        count = 0
        while self.left.take():
            count += 1
            kind, word = ("modern", "legacy")[count % 2], f"{self.number}-{count}"
            server = ("demo", "old")[count // 2 % 2]
            began = time.monotonic()
            try:
                call = self.client.call if kind == "modern" else self.client.legacy_call
                status, message = call(f"{server}_echo", {"text": word})
                if status != 200:
                    raise RuntimeError(f"HTTP status {status}")
                if word not in text_of(message) or message["result"].get("isError"):
                    self.lost.append(f"{kind} call of {server}: {status} {json.dumps(message)[:300]}")
            except Exception as error:
                self.lost.append(f"{kind} call of {server}: {error!r}")
                self.client.connection.close()
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.kinds[f"{kind} at {server}"] += 1


class Left:
    """How many calls are still to be made."""

    def __init__(self, count):
        self.count, self.lock = count, threading.Lock()

    def take(self):
        with self.lock:
            self.count -= 1
            return self.count >= 0


def storm(fleet):
    """The replicas are restarted in turn, evenly over all calls; Redis goes after a third and comes back after two."""
    left = Left(CALLS)
    callers = [Caller(fleet, number, left) for number in range(CLIENTS)]
    began = time.monotonic()
    for caller in callers:
        caller.start()
    steps = [(CALLS * (2 * turn + 1) // (2 * 2 * RESTARTS), lambda index=turn % 2: fleet.restart(index)) for turn in range(2 * RESTARTS)]
    steps += [(CALLS // 3, fleet.stop_redis), (CALLS * 2 // 3, fleet.start_redis)]
    for after, step in sorted(steps, key=lambda step: step[0]):
        while CALLS - left.count < after and any(caller.is_alive() for caller in callers):
            time.sleep(0.02)
        step()
    for caller in callers:
        caller.join()
    lost = [problem for caller in callers for problem in caller.lost]
    kinds = sum((caller.kinds for caller in callers), Counter())
    made = sum(kinds.values())
    print(f"{made} calls in {time.monotonic() - began:.1f} s ({dict(kinds)}), {len(lost)} lost, {2 * RESTARTS} restarts; slowest {max(caller.slowest for caller in callers):.2f} s")
    problems = [f"{made} calls were made, not {CALLS}"] if made != CALLS else []
    for index in range(2):
        if '"Redis is there"' not in fleet.log(index):
            problems.append(f"replica {index} does not say that Redis is back")
    return problems + lost[:20]


def ask(client):
    """A call at rest, waiting for its user; the retry that goes on with it."""
    status, message = client.call("old_ask", {})
    assert status == 200 and message["result"].get("resultType") == "input_required", message
    answers = {key: ACCEPT for key in message["result"]["inputRequests"]}
    return {"inputResponses": answers, "requestState": message["result"]["requestState"]}


def parked(fleet):
    """Asked by one replica, answered through the other, and through nginx; Redis is not needed for it."""
    problems = []
    fleet.stop_redis()
    for how in (fleet.client(index=1), fleet.client()):
        status, message = how.call("old_ask", {}, **ask(fleet.client(index=0)))
        if status != 200 or text_of(message) != "Hello, Ada!":
            problems.append(f"{status} {message}")
    fleet.start_redis()
    joined(fleet)
    return problems


def joined(fleet):
    """Until both replicas have found Redis again."""
    deadline = time.monotonic() + PATIENCE
    for index in range(2):
        while last_state(fleet.log(index)) != "Redis is there":
            assert time.monotonic() < deadline, "a replica does not find Redis"
            time.sleep(0.05)


def last_state(log):
    said = [line for line in log.splitlines() if "Redis is " in line]
    return "Redis is there" if said and "Redis is there" in said[-1] else "Redis is away"


def limits(fleet):
    """Asked for more than is allowed at both replicas at once: what they let through together."""
    stop, admitted, refused = time.monotonic() + SECONDS, Counter(), Counter()

    def hammer(index):
        client = fleet.client(LIMITED, index)
        while time.monotonic() < stop:
            status, message = client.call("demo_add", {"a": 1, "b": 1})
            assert status == 200, (status, message)
            (refused if message["result"].get("isError") else admitted)[index] += 1

    began = time.monotonic()
    threads = [threading.Thread(target=hammer, args=(index,)) for index in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    allowed = BURST + RATE * took
    passed, excess = sum(admitted.values()), sum(admitted.values()) / allowed - 1
    print(f"a limit of {RATE}/s, burst {BURST}, for {took:.1f} s: {passed} passed of {passed + sum(refused.values())} ({dict(admitted)} by replica), {allowed:.0f} allowed: {excess:+.1%}")
    problems = [f"{excess:+.1%} more than allowed"] if excess > 0.05 else []
    if min(admitted[0], admitted[1]) == 0 or sum(refused.values()) < passed:
        problems.append(f"the limit was not tried at both: {admitted} passed, {refused} refused")
    return problems


def ended(fleet):
    """A session that ended at one replica has ended at the other, also where that was away from Redis when it was said."""
    client = fleet.client(index=0).open()
    other = fleet.client(index=1)
    other.session = client.session
    problems = []
    if other.legacy("tools/list", {})[0] != 200:
        problems.append("a session is not known at the other replica")
    other.send("DELETE", None, other.headers())
    # Its owner is restarted: only the table knows that it ended.
    fleet.stop(0)
    fleet.start(0)
    joined(fleet)
    for index in range(2):
        late = fleet.client(index=index)
        late.session = client.session
        status = late.legacy("tools/list", {})[0]
        if status != 404:
            problems.append(f"a session that has ended is answered with {status} at replica {index}")
    # Begun at 0, whose process ends: one of the others takes it over, and all know which.
    client = fleet.client(index=0).open()
    fleet.stop(0)
    fleet.start(0)
    joined(fleet)
    counts = []
    for index in (0, 1, 0, 1):
        late = fleet.client(index=index)
        late.session = client.session
        status, message = late.legacy_call("old_counter", {})
        counts.append(message["result"]["structuredContent"]["count"] if status == 200 else status)
    if counts != [1, 2, 3, 4]:
        problems.append(f"a session taken over is not one session at its server: {counts}")
    return problems


def changes(fleet):
    """A change that one replica is told of is known to the other before anybody can ask it."""
    problems = []
    clients = [fleet.client(index=index) for index in range(2)]
    names = lambda client: {tool["name"] for tool in modern.last(client.modern("tools/list", {})[2])["result"]["tools"]}
    before = [names(client) for client in clients]
    status, message = clients[0].call("demo_toggle", {})
    deadline = time.monotonic() + PATIENCE
    while (now := [names(client) for client in clients])[0] == before[0] or now[0] != now[1]:
        if time.monotonic() > deadline:
            problems.append(f"{status} {message}: {before} became {now}")
            break
        time.sleep(0.02)
    return problems


def killed(fleet):
    """What the protocol cannot save: a call that waits at a replica which is killed. It is said, and not done again."""
    waiting = ask(fleet.client(index=0))
    fleet.stop(0, signal.SIGKILL)
    problems = []
    status, message = fleet.client().call("old_ask", {}, **waiting)
    if status != 200 or not message["result"].get("isError") or "lost" not in text_of(message):
        problems.append(f"{status} {message}")
    else:
        print(text_of(message))
    status, message = fleet.client().call("demo_echo", {"text": "on we go"})
    if status != 200 or "on we go" not in text_of(message):
        problems.append(f"{status} {message}")
    return problems


sys.exit(main())
