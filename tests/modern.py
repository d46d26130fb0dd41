"""Requests of the 2026-07-28 revision as they go over the wire, and what is said to them."""

import json
import urllib.error
import urllib.request

VERSION = "2026-07-28"
PATIENCE = 90  # seconds; a bound against hanging, never a measure


def message(method, params, capabilities=None):
    """The body of a request."""
    meta = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": capabilities or {}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}).encode()


def headers(method, name=None, key=None):
    """The headers that belong to it."""
    all = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION, "Mcp-Method": method}
    return all | ({"Mcp-Name": name} if name else {}) | ({"Authorization": f"Bearer {key}"} if key else {})


def request(url, method, params, name=None, key=None):
    """A request for urllib."""
    return urllib.request.Request(url, message(method, params), headers(method, name, key))


def last(text):
    """The final message of an answer, whatever its form."""
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:") and line.strip() != "data:"]
    return json.loads(lines[-1] if lines else text or "{}")


def answered(request):
    """The text of the answer, also if that is a refusal."""
    try:
        return urllib.request.urlopen(request, timeout=PATIENCE).read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
