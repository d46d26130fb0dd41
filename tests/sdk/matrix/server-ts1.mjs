// A 2025-11-25 server on the official TypeScript SDK v1: node server-ts1.mjs NAME stdio|http|sse [FILE]; prints its URL.
// FILE counts the changes of all processes of a server over stdio: each tells when it has changed.
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { readFileSync, watch, writeFileSync } from 'node:fs';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import * as z from 'zod/v4';
import { FORM, NOTE, PROMPT, completed, formed, proceed, rooted, sampled, slow, text, wait, wasCancelled } from './world.mjs';

const [name, kind, file] = process.argv.slice(2);
const live = new Set();
let changes = 0;

function change(to) {
  if (to === changes) return;
  changes = to;
  for (const each of live) each.sync();
}

function build() {
  const mcp = new McpServer({ name, version: '1.0.0' }, { capabilities: { logging: {}, tools: { listChanged: true } } });
  const progress = x => async (progress, total) => x._meta?.progressToken !== undefined
    && x.sendNotification({ method: 'notifications/progress', params: { progressToken: x._meta.progressToken, progress, total } });
  const tool = (name, inputSchema, answer) => mcp.registerTool(name, { description: name, inputSchema }, answer);
  tool('echo', { text: z.string() }, async a => text(a.text));
  tool('slow', { steps: z.number().int(), key: z.string() }, (a, x) => slow(a, progress(x)));
  tool('proceed', { key: z.string() }, proceed);
  tool('wait', { key: z.string() }, (a, x) => wait(a, x.signal, progress(x)));
  tool('was_cancelled', { key: z.string() }, wasCancelled);
  tool('fail', {}, async () => text('it did not work', { isError: true }));
  tool('ask_form', {}, async (_, x) => formed(await mcp.server.elicitInput(FORM, { relatedRequestId: x.requestId })));
  tool('ask_model', {}, async (_, x) => sampled(await mcp.server.createMessage(PROMPT, { relatedRequestId: x.requestId })));
  tool('ask_roots', {}, async (_, x) => rooted(await mcp.server.listRoots(undefined, { relatedRequestId: x.requestId })));
  tool('log', { text: z.string() }, async (a, x) => {
    await x.sendNotification({ method: 'notifications/message', params: { level: 'warning', logger: 'matrix', data: a.text } });
    return text('logged');
  });
  tool('change', {}, async () => {
    const now = (file ? Number(readFileSync(file)) : changes) + 1;
    if (file) writeFileSync(file, `${now}`);
    change(now);
    return text(`extra_${changes}`);
  });
  mcp.sync = () => {
    mcp.extra?.remove();
    if (changes) mcp.extra = tool(`extra_${changes}`, {}, async () => text('extra'));
  };
  mcp.sync();
  mcp.registerResource('note', NOTE(name), { mimeType: 'text/plain' }, async uri => ({ contents: [{ uri: uri.href, text: `note of ${name}` }] }));
  mcp.registerPrompt('greet', { argsSchema: { name: completable(z.string(), completed) } },
    async a => ({ messages: [{ role: 'user', content: { type: 'text', text: `Greet ${a.name}` } }] }));
  live.add(mcp);
  mcp.server.onclose = () => live.delete(mcp);
  return mcp;
}

const sessions = new Map();

async function streamable(request, response) {
  const id = request.headers['mcp-session-id'];
  let transport = sessions.get(id);
  if (id && !transport) return response.writeHead(404).end();
  if (!transport) {
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: id => sessions.set(id, transport),
      onsessionclosed: id => sessions.delete(id) });
    await build().connect(transport);
  }
  await transport.handleRequest(request, response);
}

async function sse(request, response) {
  const url = new URL(request.url, 'http://localhost');
  if (request.method === 'POST') {
    const transport = sessions.get(url.searchParams.get('sessionId'));
    return transport ? transport.handlePostMessage(request, response) : response.writeHead(404).end();
  }
  const transport = new SSEServerTransport('/message', response);
  sessions.set(transport.sessionId, transport);
  await build().connect(transport);
}

if (file) watch(file, () => change(Number(readFileSync(file)) || changes)); // it is empty while it is written
if (kind === 'stdio') await build().connect(new StdioServerTransport());
else {
  // One that tries the other transport first learns that there is nothing but SSE here.
  const answer = kind === 'http' ? streamable : (request, response) => request.method === 'POST' && !request.url.startsWith('/message')
    ? response.writeHead(405).end() : sse(request, response);
  createServer((request, response) => answer(request, response).catch?.(error => console.error(error)))
    .listen(0, '127.0.0.1', function () { console.log(`http://127.0.0.1:${this.address().port}/${kind === 'sse' ? 'sse' : 'mcp'}`); });
}
