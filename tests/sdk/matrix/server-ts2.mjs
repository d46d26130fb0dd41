// A 2026-07-28 server on the official TypeScript SDK v2: node server-ts2.mjs NAME; prints its URL.
import { createServer } from 'node:http';
import { McpServer, completable, createMcpHandler, inputRequired } from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import * as z from 'zod/v4';
import { FORM, NOTE, PROMPT, completed, formed, proceed, rooted, sampled, slow, text, wait, wasCancelled } from './world.mjs';

const name = process.argv[2];
let changes = 0;

function build() {
  const mcp = new McpServer({ name, version: '1.0.0' }, { capabilities: { logging: {}, tools: { listChanged: true } } });
  const progress = ctx => async (progress, total) => ctx.mcpReq._meta?.progressToken !== undefined
    && ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken: ctx.mcpReq._meta.progressToken, progress, total } });
  const tool = (name, shape, answer) => mcp.registerTool(name, { description: name, inputSchema: z.object(shape) }, answer);
  const asks = (name, request, answer) => tool(name, {}, async (_, ctx) => {
    const given = ctx.mcpReq.inputResponses?.asked;
    return given ? answer(given) : inputRequired({ inputRequests: { asked: request } });
  });
  tool('echo', { text: z.string() }, async a => text(a.text));
  tool('slow', { steps: z.number().int(), key: z.string() }, (a, ctx) => slow(a, progress(ctx)));
  tool('proceed', { key: z.string() }, proceed);
  tool('wait', { key: z.string() }, (a, ctx) => wait(a, ctx.mcpReq.signal, progress(ctx)));
  tool('was_cancelled', { key: z.string() }, wasCancelled);
  tool('fail', {}, async () => text('it did not work', { isError: true }));
  asks('ask_form', inputRequired.elicit(FORM), formed);
  asks('ask_model', inputRequired.createMessage(PROMPT), sampled);
  asks('ask_roots', inputRequired.listRoots(), rooted);
  tool('log', { text: z.string() }, async (a, ctx) => {
    await ctx.mcpReq.log('warning', a.text, 'matrix');
    return text('logged');
  });
  tool('change', {}, async () => {
    changes++;
    handler.notify.toolsChanged();
    return text(`extra_${changes}`);
  });
  if (changes) tool(`extra_${changes}`, {}, async () => text('extra'));
  mcp.registerResource('note', NOTE(name), { mimeType: 'text/plain' }, async uri => ({ contents: [{ uri: uri.href, text: `note of ${name}` }] }));
  mcp.registerPrompt('greet', { argsSchema: z.object({ name: completable(z.string(), completed) }) },
    async a => ({ messages: [{ role: 'user', content: { type: 'text', text: `Greet ${a.name}` } }] }));
  return mcp;
}

const handler = createMcpHandler(build, { legacy: 'reject', onerror: error => console.error(error.message) }), node = toNodeHandler(handler);
createServer((request, response) => request.url === '/mcp' ? node(request, response) : response.writeHead(404).end())
  .listen(0, '127.0.0.1', function () { console.log(`http://127.0.0.1:${this.address().port}/mcp`); });
