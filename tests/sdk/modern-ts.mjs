// A 2026-07-28 server on the official TypeScript SDK, its tool list in pages of two: node modern-ts.mjs; prints its URL.
import { createServer } from 'node:http';
import { McpServer, createMcpHandler, fromJsonSchema } from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import * as z from 'zod/v4';

const PAGE = 2;
const text = (text, more = {}) => ({ content: [{ type: 'text', text }], ...more });

function build() {
  const server = new McpServer({ name: 'modern-ts', version: '1.0.0' }, { cacheHints: { 'tools/list': { ttlMs: 60000, cacheScope: 'public' } } });
  server.registerTool('echo', { description: 'Says it back', inputSchema: z.object({ text: z.string() }) }, async a => text(a.text));
  server.registerTool('add', { title: 'Sum', description: 'Adds two numbers', annotations: { readOnlyHint: true }, _meta: { 'example.com/unit': 1.5 },
    inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: z.object({ sum: z.number() }) },
    async a => text(String(a.a + a.b), { structuredContent: { sum: a.a + a.b }, _meta: { 'example.com/cost': null } }));
  server.registerTool('region_lookup', { description: 'Shows the headers that mirror its arguments', inputSchema: fromJsonSchema({
    type: 'object', required: ['region'], properties: {
      region: { type: 'string', 'x-mcp-header': 'Region' }, level: { type: 'integer', 'x-mcp-header': 'Level' }, note: { type: 'string' } } }) },
    async (a, ctx) => {
      const header = name => ctx.http?.req?.headers?.get(name) ?? null;
      return text(JSON.stringify({ arguments: a, region: header('mcp-param-region'), level: header('mcp-param-level') }));
    });
  server.registerTool('slow', { description: 'Reports progress', inputSchema: z.object({ steps: z.number().int() }) }, async (a, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= a.steps && progressToken !== undefined; progress++)
      await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: a.steps, message: `step ${progress}` } });
    return text(`${a.steps} steps done`);
  });
  server.registerTool('fail', { description: 'Fails, as a tool does', inputSchema: z.object({}) }, async () => text('it did not work', { isError: true }));
  // The SDK lists everything on one page.
  const handlers = server.server._requestHandlers, all = handlers.get('tools/list');
  handlers.set('tools/list', async (request, ctx) => {
    const { tools, ...rest } = await all({ ...request, params: { ...request.params, cursor: undefined } }, ctx);
    const from = Number(request.params?.cursor ?? 0), next = from + PAGE;
    return { ...rest, tools: tools.slice(from, next), ...(next < tools.length && { nextCursor: String(next) }) };
  });
  return server;
}

const handler = toNodeHandler(createMcpHandler(build, { legacy: 'reject', onerror: error => console.error(error.message) }));
createServer((request, response) => request.url === '/mcp' ? handler(request, response) : response.writeHead(404).end())
  .listen(0, '127.0.0.1', function () { console.log(`http://127.0.0.1:${this.address().port}/mcp`); });
