// A 2026-07-28 server on the official TypeScript SDK that changes when told: node changing-ts.mjs; prints its URL.
// `change` makes a new version of what it is told and answers with its name. All hints say: keep for an hour.
import { createServer } from 'node:http';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import * as z from 'zod/v4';

const versions = { tools: 0, prompts: 0, resources: 0, updated: 0 }, note = 'note://ts/note';
const hint = { ttlMs: 3600000, cacheScope: 'private' };
const name = what => `v_${versions[what]}`;

function build() {
  const server = new McpServer({ name: 'changing-ts', version: '1.0.0' }, {
    capabilities: { resources: { subscribe: true, listChanged: true } },
    cacheHints: { 'tools/list': hint, 'prompts/list': hint, 'resources/list': hint, 'resources/read': hint } });
  server.registerTool('change', { inputSchema: z.object({ what: z.enum(Object.keys(versions)) }) }, async ({ what }) => {
    versions[what]++;
    ({ tools: () => notify.toolsChanged(), prompts: () => notify.promptsChanged(), resources: () => notify.resourcesChanged(),
      updated: () => notify.resourceUpdated(note) })[what]();
    return { content: [{ type: 'text', text: name(what) }] };
  });
  server.registerTool(name('tools'), { inputSchema: z.object({}) }, async () => ({ content: [] }));
  server.registerPrompt(name('prompts'), {}, async () => ({ messages: [] }));
  server.registerResource('versioned', `note://ts/${name('resources')}`, {}, async uri => ({ contents: [{ uri: uri.href, text: '' }] }));
  server.registerResource('note', note, {}, async uri => ({ contents: [{ uri: uri.href, text: name('updated') }] }));
  return server;
}

const handler = createMcpHandler(build, { legacy: 'reject', onerror: error => console.error(error.message) }), { notify } = handler;
const node = toNodeHandler(handler);
createServer((request, response) => request.url === '/mcp' ? node(request, response) : response.writeHead(404).end())
  .listen(0, '127.0.0.1', function () { console.log(`http://127.0.0.1:${this.address().port}/mcp`); });
