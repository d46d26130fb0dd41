"""The official Python client signs in as a machine: auth-client.py URL TOOL ARGUMENTS ISSUER CLIENT SECRET.

All of OAuth is the SDK's client-credentials provider; prints the answer and the token as JSON.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client


class Storage:
    """The storage that every client brings itself."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def main(url, name, arguments, issuer, client_id, secret):
    storage = Storage()
    provider = ClientCredentialsOAuthProvider(url, storage, client_id, secret, issuer=issuer)
    async with httpx2.AsyncClient(auth=provider, timeout=90) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            result = await client.call_tool(name, json.loads(arguments))
            print(json.dumps({
                "version": client.protocol_version,
                "result": result.model_dump(mode="json", by_alias=True, exclude_unset=True),
                "token": storage.tokens.access_token,
                "scope": storage.tokens.scope,
            }))


asyncio.run(main(*sys.argv[1:]))
