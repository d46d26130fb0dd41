// An MCP server whose every text is made to do harm on a page: node hostile.mjs; prints its URL.
import { createServer } from 'node:http';

export const TOOLS = ['<script>window.pwned=1</script>', '<img src=x onerror="window.pwned=2">', 'plain', '\u202eevil\u2066\u200b', 'x'.repeat(60_000)];
const result = more => ({ resultType: 'complete', ...more });
const ANSWERS = {
  'server/discover': () => result({ supportedVersions: ['2026-07-28'], capabilities: { tools: {} } }),
  'tools/list': () => result({ ttlMs: 600_000, cacheScope: 'public', tools: TOOLS.map(name => ({ name, inputSchema: { type: 'object' } })) }),
  'tools/call': ({ name }) => result({ isError: name === 'plain', content: [{ type: 'text', text: '<b>' }] }),
};

const server = createServer(async (request, response) => {
  let body = '';
  for await (const piece of request.setEncoding('utf8')) body += piece;
  let id, answer;
  try {
    const message = JSON.parse(body);
    id = message.id;
    answer = ANSWERS[message.method]?.(message.params);
  } catch { /* a DELETE or a GET */ }
  if (id === undefined) return response.writeHead(405).end();
  response.writeHead(200, { 'content-type': 'application/json' });
  const rest = answer ? { result: answer } : { error: { code: -32601, message: '<i>no</i>' } };
  response.end(JSON.stringify({ jsonrpc: '2.0', id, ...rest }));
});
if (process.argv[1] === import.meta.filename) server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
