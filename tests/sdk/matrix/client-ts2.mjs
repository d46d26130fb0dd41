// The official TypeScript SDK v2 as client of the matrix.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { ANSWERS, Box, CAPABILITIES, run } from './steps.mjs';

await run(async ({ target }) => {
  const notices = new Box();
  const client = new Client({ name: 'matrix', version: '1.0.0' }, { capabilities: CAPABILITIES, versionNegotiation: { mode: 'auto' } });
  for (const [method, answer] of Object.entries(ANSWERS)) client.setRequestHandler(method, answer);
  client.setNotificationHandler('notifications/tools/list_changed', () => notices.put({ what: 'tools' }));
  client.setNotificationHandler('notifications/message', ({ params }) => notices.put({ what: 'log', ...params }));
  await client.connect(Array.isArray(target) ? new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: 'ignore' })
    : new StreamableHTTPClientTransport(new URL(target)));
  return {
    client, notices, version: client.getNegotiatedProtocolVersion(),
    call: (name, args, { logs, ...options } = {}) =>
      client.callTool({ name, arguments: args, ...(logs && { _meta: { 'io.modelcontextprotocol/logLevel': 'debug' } }) }, options),
    listen: () => client.listen({ toolsListChanged: true }),
    close: () => client.close(),
  };
});
