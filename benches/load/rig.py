"""What the load measurements stand on: builds, processes on free ports, tokens, configurations."""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
README = HERE.parent / "README.md"
ISSUER, AUDIENCE = "https://id.bench.example", "https://mcp.bench.example"

GATEWAY = """
[gateway]
listen = "127.0.0.1:{listen}"
admin_listen = "127.0.0.1:{admin}"
max_streams = 100000
max_sessions = 100000
max_buffered = "2GiB"
{gateway}
[telemetry]
log = "warn"
{telemetry}
"""
SERVER = """
[[server]]
name = "{name}"
url = "http://127.0.0.1:{echo}{path}"
protocol = "modern"
max_concurrency = {permits}
queue = {queue}
max_result = "128MiB"
"""
# What a production configuration has: tokens, grants, a limit that is never reached, an audit log, spans.
AUTH = """
[auth]
required_scopes = ["mcp:use"]
[[auth.issuer]]
issuer = "{issuer}"
audiences = ["{audience}"]
jwks_url = "http://127.0.0.1:{nginx}/jwks"
"""
GRANT = """
[[grant]]
to = {{ groups = ["{group}"] }}
servers = ["*"]
tools = ["*"]
"""
REST = """
[[limit]]
per = ["subject", "tool"]
rate = "1000000/s"
burst = 1000000
[audit]
file = "{audit}"
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, condition, process=None, seconds=60):
    """Asks again and again, quickly; the measurements that need a moment say so themselves."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process is not None and process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with {process.returncode}")
        if condition():
            return
        time.sleep(0.001)
    sys.exit(f"waited too long: {what}")


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ready(admin):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/readyz", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def metric(admin, name):
    """The sum of a metric's samples."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


def build(gatehouse):
    run = lambda *command, **more: subprocess.run(command, check=True, **more)
    run("cargo", "build", "--release", "--locked", "--quiet", cwd=HERE)
    tools = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "release"
    if gatehouse:
        return tools, Path(gatehouse)
    run("cargo", "build", "--release", "--locked", "--quiet", "--bin", "gatehouse", cwd=ROOT)
    return tools, Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "gatehouse"


def nginx_binary():
    found = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "-qq", "update"])
        subprocess.run(["apt-get", "-qq", "install", "-y", "nginx-light"], stdout=subprocess.DEVNULL)
        found = shutil.which("/usr/sbin/nginx")
    return found or sys.exit("nginx is missing and could not be installed")


class Issuer:
    """A key of an authorization server, and tokens that it signed (by Debian's openssl)."""

    def __init__(self, folder):
        self.key = folder / "issuer.pem"
        self.openssl("genrsa", "-out", self.key, "2048")
        modulus = self.openssl("rsa", "-in", self.key, "-noout", "-modulus").decode().strip().split("=")[1]
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "bench", "e": "AQAB", "n": base(bytes.fromhex(modulus))}
        self.jwks = json.dumps({"keys": [key]})

    def openssl(self, *arguments, given=None):
        command = ["openssl", *map(str, arguments)]
        return subprocess.run(command, input=given, check=True, capture_output=True).stdout

    def token(self, subject, group="staff"):
        now = int(time.time())
        claims = {
            "iss": ISSUER, "sub": subject, "aud": AUDIENCE, "iat": now, "exp": now + 7200, "client_id": "bench-agent",
            "scope": "mcp:use", "groups": [group], "name": "An ordinary user", "email": f"{subject}@bench.example",
        }
        head = {"alg": "RS256", "typ": "at+jwt", "kid": "bench"}
        signed = ".".join(base(json.dumps(part).encode()) for part in (head, claims))
        return f"{signed}.{base(self.openssl('dgst', '-sha256', '-sign', self.key, given=signed.encode()))}"


def base(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Bench:
    """The echo server and nginx, and gateways started one after another."""

    def __init__(self, tools, gatehouse, folder):
        self.tools, self.gatehouse, self.folder = tools, gatehouse, Path(folder)
        self.running = []
        self.issuer = Issuer(self.folder)
        self.tokens = self.folder / "tokens"
        self.tokens.write_text(self.issuer.token("user-1") + "\n")
        self.echo = free_port()
        self.echo_process = self.start([tools / "echo", "--port", self.echo], self.echo)
        self.nginx = free_port()
        text = (HERE / "nginx.conf").read_text()
        text = text.replace("@ECHO@", str(self.echo)).replace("@NGINX@", str(self.nginx))
        text = text.replace("@JWKS@", self.issuer.jwks)
        (self.folder / "nginx.conf").write_text(text)
        command = [nginx_binary(), "-p", folder, "-c", "nginx.conf", "-e", "error.log", "-g", "daemon off;"]
        master = self.start(command, self.nginx)
        # The master only waits; its child is the worker.
        children = lambda: Path(f"/proc/{master.pid}/task/{master.pid}/children").read_text().split()
        until("nginx has no worker", children, master)
        self.nginx_pid = int(children()[0])

    def start(self, command, port):
        command = [str(part) for part in command]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.running.append(process)
        until(f"nothing listens on port {port}", lambda: accepts(port), process)
        return process

    def configuration(self, paths, full=False, grants=10, permits=256, queue=64):
        """One server `s0`, `s1`, … for each path; `full` adds what a production configuration has."""
        listen, admin = free_port(), free_port()
        traces = f'otlp = "http://127.0.0.1:{self.nginx}/v1/traces"' if full else ""
        text = GATEWAY.format(listen=listen, admin=admin, gateway="", telemetry=traces)
        for number, path in enumerate(paths):
            text += SERVER.format(name=f"s{number}", echo=self.echo, path=path, permits=permits, queue=queue)
        if full:
            text += AUTH.format(issuer=ISSUER, audience=AUDIENCE, nginx=self.nginx)
            # The one that matches comes last.
            text += "".join(GRANT.format(group=f"team-{number}") for number in range(grants - 1))
            text += GRANT.format(group="staff") + REST.format(audit=self.folder / "audit.jsonl")
        file = self.folder / "gatehouse.toml"
        file.write_text(text)
        return file, listen, admin

    def start_gatehouse(self, paths, **setting):
        file, listen, admin = self.configuration(paths, **setting)
        process = self.start([self.gatehouse, "serve", "--config", file], listen)
        until("it is not ready", lambda: ready(admin), process)
        # What starting goes on with behind is no part of what calls cost.
        wanted = sum(int(path.split("/")[2]) for path in paths)
        until("it does not list all", lambda: metric(admin, "gatehouse_catalogue_items") >= wanted, process)
        until("it does not come to rest", lambda: at_rest(process), process)
        return process, listen, admin

    def stop(self, process):
        self.running.remove(process)
        process.terminate()
        process.wait(timeout=60)

    def close(self):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait(timeout=60)

    def command(self, port, path, **options):
        command = [self.tools / "generator", "--url", f"http://127.0.0.1:{port}{path}"]
        for name, value in options.items():
            command += [f"--{name}", value]
        return [str(part) for part in command]

    def load(self, port, path, **options):
        command = self.command(port, path, **options)
        done = subprocess.run(command, capture_output=True, text=True)
        line = json.loads(done.stdout or '{"error": "it said nothing"}')
        if "error" in line:
            sys.exit(f"{' '.join(command)}: {line}")
        return line


def at_rest(process, seconds=0.3):
    """Whether a process uses (next to) no CPU time for so long."""
    ticks = lambda: sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
    before = ticks()
    time.sleep(seconds)
    return ticks() - before <= 1


def resident(process):
    """Resident memory in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) * 1024 / 1e6


def write(mark, text):
    """Puts a table between its marks in the README."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, rest = README.read_text().split(begin)
    _, after = rest.split(end)
    README.write_text(f"{before}{begin}\n{text}\n{end}{after}")
