"""A real authorization server, the gateway as its resource server, official clients that sign in: each step seen on the wire."""

import base64
import json
import select
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processes import NODE, PATIENCE, PYTHON, TESTS, Processes, report, table

SDK = TESTS / "sdk"
SCOPE = "mcp:use"
CALL = ("echo", {"text": "is the door shut?"})
MODERN = "2026-07-28"


class Checks:
    """The rows of the table and what was wrong."""

    def __init__(self):
        self.rows = [("what", "where", "got", "")]
        self.problems = []

    def equal(self, what, where, want, got):
        self.rows.append((what, where, short(got), "" if want == got else "WRONG"))
        if want != got:
            self.problems.append(f"{what} at {where}:\n  expected {want}\n  got      {got}")


class Gateway:
    """The gateway's two endpoints and what it must say on each."""

    def __init__(self, base):
        self.base = base

    def url(self, path):
        return f"{self.base}{path}"

    def metadata(self, path):
        return f"{self.base}/.well-known/oauth-protected-resource{path}"

    def challenge(self, path, error=None):
        """A-10, A-11: the pointer to the metadata and the scope, and an error only where something was presented."""
        parts = {"resource_metadata": self.metadata(path), "scope": SCOPE}
        return {**parts, "error": error} if error else parts

    def call(self, path, token=None):
        """One tools/call as a bare client makes it; returns status, challenge and text of the answer."""
        meta = {"protocolVersion": MODERN, "clientInfo": {"name": "wire", "version": "1"}, "clientCapabilities": {}}
        params = {"name": CALL[0], "arguments": CALL[1], "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": CALL[0]}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        status, got, text = http(urllib.request.Request(self.url(path), body, headers))
        return status, challenge(got.get_all("WWW-Authenticate")), text


def main():
    checks = Checks()
    with Processes() as processes:
        issuer, foreign = (start_issuer(processes, name) for name in ("issuer", "issuer-foreign"))
        gateway = start_gateway(processes, issuer)
        check_documents(checks, gateway, issuer)
        check_connection(checks, gateway, "/mcp/a")
        check_machine(checks, gateway, issuer)
        check_refused(checks, gateway, issuer, foreign)
        check_typescript(checks, gateway, issuer)
        check_python(checks, gateway, issuer)
    table(checks.rows)
    checks.problems += [f"still running after the test: {process}" for process in processes.left_behind]
    report(checks.problems, len(checks.rows) - 1)
    return bool(checks.problems)


def start_issuer(processes, name):
    return processes.start(name, [NODE, str(SDK / "issuer.mjs"), SCOPE], r"http\S+", stream="stdout")[0]


def start_gateway(processes, issuer):
    lines = ["[gateway]", 'listen = "127.0.0.1:0"', 'admin_listen = "127.0.0.1:0"']
    lines += ["[auth]", f'required_scopes = ["{SCOPE}"]', 'skew = "0s"', "[[auth.issuer]]", f'issuer = "{issuer}"']
    for path, name, command in (("/mcp/a", "ts", [NODE, "modern-ts.mjs"]), ("/mcp/b", "py", [PYTHON, "modern-py.py"])):
        url = processes.start(f"auth-{name}", [command[0], str(SDK / command[1])], r"http\S+", stream="stdout")[0]
        lines += ["[[endpoint]]", f'path = "{path}"', f'servers = ["{name}"]', "prefix = false"]
        lines += ["[[server]]", f'name = "{name}"', f'url = "{url}"', "required = true"]
        lines += [f'list_timeout = "{PATIENCE}s"', f'probe_timeout = "{PATIENCE}s"']
    return Gateway(processes.gateway("gateway-auth", "\n".join(lines))[0])


def check_documents(checks, gateway, issuer):
    """401 before anything else is learnt, and the documents from which a client finds its way."""
    for path in ("/mcp/a", "/mcp/b"):
        status, said, text = gateway.call(path)
        checks.equal("no token", path, (401, gateway.challenge(path), ""), (status, said, text))
        status, _, text = http(gateway.metadata(path))
        document = json.loads(text) if status == 200 else {}
        got = {key: document.get(key) for key in ("resource", "authorization_servers", "scopes_supported")}
        want = {"resource": gateway.url(path), "authorization_servers": [issuer], "scopes_supported": [SCOPE]}
        checks.equal("metadata", path, want, got)


def check_connection(checks, gateway, path):
    """Clients send head and body apart, and again on the same connection: it is kept, or its end is announced (RFC 9112, 9.6)."""
    host, port = gateway.base.removeprefix("http://").split(":")
    head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n".encode()
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        try:
            kept = used_again(connection, head)
        except ConnectionError:
            kept = False
    checks.equal("no token, connection used again", path, True, kept)


def used_again(connection, head):
    """Whether a second request is answered, or the first answer said that none will be."""
    answers = connection.makefile("rb")
    connection.sendall(head)
    # The answer may come before the body or wait for it, and with it the end: this lets either come, if it wants to.
    if early := bool(select.select([connection], [], [], 2)[0]):
        first = read_head(answers)
        select.select([connection], [], [], 2)
    connection.sendall(b"{}")
    if not early:
        first = read_head(answers)
    if b"connection: close" in first.lower():
        return True
    connection.sendall(head + b"{}")
    return bool(read_head(answers))


def read_head(answers):
    """Status line and headers of an answer without a body; empty when the connection has ended."""
    return b"".join(iter(answers.readline, b"\r\n")) if answers.peek(1) else b""


def check_machine(checks, gateway, issuer):
    """Client credentials with a resource indicator: good for that resource and for no other."""
    for path, sibling in (("/mcp/a", "/mcp/b"), ("/mcp/b", "/mcp/a")):
        token = machine_token(issuer, gateway.url(path))
        header, claims = decode(token)
        checks.equal("token", path, ("at+jwt", issuer, gateway.url(path)), (header["typ"], claims["iss"], claims["aud"]))
        accepted(checks, gateway, "client credentials", path, token)
        refused(checks, gateway, "client credentials of the sibling", sibling, token)


def check_refused(checks, gateway, issuer, foreign):
    path, good = "/mcp/a", machine_token(issuer, gateway.url("/mcp/a"))
    refused(checks, gateway, "of a foreign issuer, same kid", path, machine_token(foreign, gateway.url(path)))
    head, body, signature = good.split(".")
    claims = {**decode(good)[1], "sub": "somebody else"}
    refused(checks, gateway, "other claims, same signature", path, f"{head}.{encode(claims)}.{signature}")
    refused(checks, gateway, "alg none", path, f"{encode({**decode(good)[0], 'alg': 'none'})}.{body}.")
    refused(checks, gateway, "opaque, for no resource", path, machine_token(issuer, None))
    without = gateway.call(path, machine_token(issuer, gateway.url(path), scope=None))
    checks.equal("without the scope", path, (403, gateway.challenge(path, "insufficient_scope")), without[:2])
    hasty = machine_token(issuer, gateway.url(path), client="hasty")
    expiry = decode(hasty)[1]["exp"]
    status, answered = gateway.call(path, hasty)[0], time.time()
    # A machine too slow to ask in time shows nothing about before.
    if answered < expiry:
        checks.equal("before it expires", path, 200, status)
    while time.time() < expiry:
        time.sleep(0.1)
    refused(checks, gateway, "expired", path, hasty)
    checks.equal("in the query string", path, (401, gateway.challenge(path)), gateway.call(f"{path}?access_token={good}")[:2])


def check_typescript(checks, gateway, issuer):
    """The TypeScript SDK's own flow: 401, discovery, registration, code with PKCE, a successful call."""
    for path, sibling in (("/mcp/a", "/mcp/b"), ("/mcp/b", "/mcp/a")):
        seen(issuer)
        done = run([NODE, str(SDK / "auth-client.mjs"), gateway.url(path), CALL[0], json.dumps(CALL[1])])
        trail = seen(issuer)
        wanted = ["GET /.well-known/oauth-authorization-server 200", "POST /reg 201", "GET /auth 303", "POST /token 200"]
        checks.equal("TypeScript, code with PKCE", "issuer", wanted, first(trail, wanted))
        if signed_in(checks, gateway, "TypeScript, code with PKCE", (path, sibling), done):
            checks.equal("TypeScript, subject", path, "ada", decode(done["token"])[1]["sub"])


def check_python(checks, gateway, issuer):
    """The Python SDK's client-credentials provider."""
    for path, sibling in (("/mcp/a", "/mcp/b"), ("/mcp/b", "/mcp/a")):
        seen(issuer)
        command = [PYTHON, str(SDK / "auth-client.py"), gateway.url(path), CALL[0], json.dumps(CALL[1]), issuer, "machine", "machine-secret"]
        done = run(command)
        wanted = ["GET /.well-known/oauth-authorization-server 200", "POST /token 200"]
        checks.equal("Python, client credentials", "issuer", wanted, first(seen(issuer), wanted))
        signed_in(checks, gateway, "Python, client credentials", (path, sibling), done)


def signed_in(checks, gateway, who, paths, done):
    """What an SDK got, and that its token is good where it was got and nowhere else; False if it got nothing."""
    path, sibling = paths
    if isinstance(done, str):
        checks.equal(who, path, "signed in", done)
        return False
    checks.equal(f"{who}, call", path, (MODERN, CALL[1]["text"]), (done["version"], done["result"]["content"][0]["text"]))
    checks.equal(f"{who}, token", path, (gateway.url(path), SCOPE), (decode(done["token"])[1]["aud"], done["scope"]))
    accepted(checks, gateway, f"{who}, again", path, done["token"])
    refused(checks, gateway, f"{who}, sibling", sibling, done["token"])
    return True


def accepted(checks, gateway, what, path, token):
    status, said, text = gateway.call(path, token)
    checks.equal(what, path, (200, {}, True), (status, said, CALL[1]["text"] in text))


def refused(checks, gateway, what, path, token):
    status, said, text = gateway.call(path, token)
    said.pop("error_description", None)
    checks.equal(what, path, (401, gateway.challenge(path, "invalid_token"), ""), (status, said, text))


def machine_token(issuer, resource, scope=SCOPE, client="machine"):
    form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
    body = urllib.parse.urlencode({key: value for key, value in form.items() if value}).encode()
    basic = base64.b64encode(f"{client}:{client}-secret".encode()).decode()
    status, _, text = http(urllib.request.Request(f"{issuer}/token", body, {"Authorization": f"Basic {basic}"}))
    if status != 200:
        raise RuntimeError(f"the authorization server gives no token: {status} {text}")
    return json.loads(text)["access_token"]


def seen(issuer):
    """What the authorization server was asked since this was asked last."""
    return json.loads(http(f"{issuer}/seen")[2])


def first(trail, wanted):
    """The wanted steps in the order in which each was first taken: a client may look something up again."""
    return list(dict.fromkeys(step for step in trail if step in wanted))


def http(request):
    try:
        answer = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return answer.status, answer.headers, answer.read().decode()


def challenge(lines):
    """The parameters of the one challenge, which must be Bearer's."""
    if not lines:
        return {}
    scheme, _, rest = lines[0].partition(" ")
    if len(lines) > 1 or scheme != "Bearer":
        return {"lines": lines}
    return urllib.request.parse_keqv_list(urllib.request.parse_http_list(rest))


def encode(part):
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def decode(token):
    return [json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]]


def run(command):
    """What a client prints, or the end of its last words if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 2)
    return f"fails: {done.stderr.strip()[-500:]}" if done.returncode else json.loads(done.stdout)


def short(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:99]}…"


sys.exit(main())
