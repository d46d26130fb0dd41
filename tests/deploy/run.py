"""Checks what stands in deploy/: every file by the tool it is for, every PromQL expression on a scrape of a gateway under load."""

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from hashlib import sha256
from pathlib import Path

import kubernetes_validate
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import modern
from processes import CACHE, PATIENCE, ROOT, Processes, report

DEPLOY = ROOT / "deploy"
FOLDER = CACHE / "deploy"
KUBERNETES = "1.37"
KEY = "a-key-of-this-test-and-nothing-else"
CONFIG = f"""
[gateway]
listen = "127.0.0.1:0"
admin_listen = "127.0.0.1:0"
public_url = "http://127.0.0.1"
allowed_hosts = ["*"]
max_streams = 1
[[server]]
name = "demo"
command = ["gatehouse", "demo", "--stdio"]
[[server]]
name = "gone"
url = "http://127.0.0.1:9/mcp"
[auth]
[[auth.key]]
name = "load"
sha256 = "{sha256(KEY.encode()).hexdigest()}"
claims = {{}}
[[grant]]
servers = ["*"]
tools = ["echo", "fail", "toggle", "crash"]
"""
SCRAPE = """
global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [RULES]
scrape_configs:
  - job_name: gatehouse
    static_configs: [{ targets: ["TARGET"] }]
"""


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    problems, checked = [], 0
    for check in (promtool, manifests, compose, unit, nginx):
        found, count = check()
        problems += found
        checked += count
    with Processes() as processes:
        found, count = expressions(processes)
        problems += found
        checked += count
    problems += [f"still running after the test: {process}" for process in processes.left_behind]
    report(problems, checked)
    return bool(problems)


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE)
    return [] if done.returncode == 0 else [f"{' '.join(map(str, command[:3]))}: {(done.stdout + done.stderr).strip()[-2000:]}"]


def promtool():
    rules = run("promtool", "check", "rules", DEPLOY / "prometheus/gatehouse.rules.yml")
    return rules + run("promtool", "check", "config", "--syntax-only", DEPLOY / "prometheus/prometheus.yml"), 2


def manifests():
    """Every manifest against the schema of its kind; kustomizations have none and are looked at by their files."""
    problems, count = [], 0
    for file in sorted((DEPLOY / "kubernetes").rglob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            count += 1
            if document["kind"] == "Kustomization":
                listed = [*document.get("resources", []), *(name for one in document.get("configMapGenerator", []) for name in one["files"])]
                problems += [f"{file}: {name} is missing" for name in listed if not (file.parent / name).exists()]
                continue
            try:
                kubernetes_validate.validate(document, KUBERNETES, strict=True)
            except kubernetes_validate.ValidationError as error:
                problems.append(f"{file}: {error.message}")
    return problems, count


def compose():
    """The files that are mounted from here exist, the operator's own aside."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    missing = [path for path in mounted if path.startswith("./") and path != "./gatehouse.toml" and not (DEPLOY / path).exists()]
    return [f"compose.yaml mounts {path}, which is missing" for path in missing], len(mounted)


def unit():
    if not shutil.which("systemd-analyze"):
        print("not run: systemd-analyze is missing")
        return [], 0
    text = (DEPLOY / "systemd/gatehouse.service").read_text().replace("/usr/local/bin/gatehouse", "/bin/true")
    (FOLDER / "gatehouse.service").write_text(text)
    return run("systemd-analyze", "verify", FOLDER / "gatehouse.service"), 1


def nginx():
    if not shutil.which("nginx"):
        return ["nginx is missing"], 1
    certificate, key = FOLDER / "mcp.pem", FOLDER / "mcp.key"
    made = run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=mcp.example.com", "-keyout", key, "-out", certificate)
    text = (DEPLOY / "nginx/gatehouse.conf").read_text()
    text = text.replace("/etc/nginx/tls/mcp.pem", str(certificate)).replace("/etc/nginx/tls/mcp.key", str(key)).replace("443", "8443")
    # Debian's nginx is older than `http2 on`, which newer ones ask for.
    text = text.replace("http2 on;", "").replace("listen 8443 ssl;", "listen 127.0.0.1:8443 ssl http2;")
    (FOLDER / "nginx.conf").write_text(f"pid {FOLDER}/nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n{text}\n}}\n")
    return made + run("nginx", "-t", "-c", FOLDER / "nginx.conf", "-p", FOLDER), 1


def expressions(processes):
    """Every expression returns data in a real Prometheus; comparisons are asked for as true or false."""
    public, admin = processes.gateway("gateway-deploy", CONFIG)
    scrape = SCRAPE.replace("RULES", str(DEPLOY / "prometheus/gatehouse.rules.yml")).replace("TARGET", admin.removeprefix("http://"))
    (FOLDER / "prometheus.yml").write_text(scrape)
    command = ["prometheus", f"--config.file={FOLDER}/prometheus.yml", f"--storage.tsdb.path={FOLDER}/data", "--web.listen-address=127.0.0.1:0", "--log.level=info"]
    address = processes.start("prometheus", command, r"[Ll]istening on\"? (?:component=web )?address=(127\.0\.0\.1:[1-9]\d*)|address=(127\.0\.0\.1:[1-9]\d*)")
    prometheus = f"http://{address[1] or address[2]}"
    waiting = {name: asked(expression) for name, expression in written()}
    count, faults = len(waiting), []
    deadline = time.monotonic() + 3 * PATIENCE
    while waiting and time.monotonic() < deadline:
        load(public)
        for name, expression in list(waiting.items()):
            answer = query(prometheus, expression)
            if answer["status"] != "success":
                faults.append(f"{name}: {answer.get('error')}")
                del waiting[name]
            elif answer["data"]["result"]:
                del waiting[name]
        time.sleep(0.5)
    return faults + [f"{name}: no data for {expression}" for name, expression in waiting.items()], count


def written():
    for group in yaml.safe_load((DEPLOY / "prometheus/gatehouse.rules.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule.get("record") or rule["alert"], rule["expr"]
    for panel in json.loads((DEPLOY / "grafana/gatehouse.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield f"panel {panel['title']} {target['refId']}", target["expr"]


def asked(expression):
    """As it is asked here: all servers, nothing from before the test began, both sides of each comparison."""
    expression = expression.replace("$server", ".*").replace(" offset 10m", "")
    return re.sub(r" (==|>|<) (?!bool)", r" \1 bool ", expression)


def query(prometheus, expression):
    try:
        return json.load(urllib.request.urlopen(f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}", timeout=PATIENCE))
    except urllib.error.HTTPError as error:
        return json.load(error)


def load(public):
    """One of everything that counts: good calls, a tool's error, a change, a crash, a dead server, refusals."""
    for _ in range(5):
        call(public, "demo_echo", {"text": "x"})
    call(public, "demo_fail", {})
    call(public, "demo_toggle", {})
    call(public, "demo_add", {"a": 1, "b": 2})  # no grant gives it
    call(public, "gone_anything", {})
    call(public, "demo_echo", {"text": "x"}, key="nobody's")
    call(public, "demo_echo", {"text": "x"}, header="demo_fail")
    post(public, "tools/list", {}, None)
    listen = {"notifications": {"toolsListChanged": True}}
    first = open_stream(public, listen)
    post(public, "subscriptions/listen", listen, None)  # one too many
    call(public, "demo_crash", {})
    if first:
        first.close()


def call(public, tool, arguments, key=KEY, header=None):
    return post(public, "tools/call", {"name": tool, "arguments": arguments}, header or tool, key)


def request(public, method, params, name, key=KEY):
    return modern.request(f"{public}/mcp", method, params, name, key)


def post(public, method, params, name, key=KEY):
    return modern.answered(request(public, method, params, name, key))


def open_stream(public, params):
    try:
        stream = urllib.request.urlopen(request(public, "subscriptions/listen", params, None), timeout=PATIENCE)
        stream.readline()
        return stream
    except urllib.error.HTTPError:
        return None  # the one before has not ended yet


sys.exit(main())
