// The official TypeScript SDK v1 as client of the matrix.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { ANSWERS, Box, CAPABILITIES, run } from './steps.mjs';

await run(async ({ target, sse }) => {
  const notices = new Box(), client = new Client({ name: 'matrix', version: '1.0.0' }, { capabilities: CAPABILITIES });
  client.setRequestHandler(ElicitRequestSchema, ANSWERS['elicitation/create']);
  client.setRequestHandler(CreateMessageRequestSchema, ANSWERS['sampling/createMessage']);
  client.setRequestHandler(ListRootsRequestSchema, ANSWERS['roots/list']);
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => notices.put({ what: 'tools' }));
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => notices.put({ what: 'log', ...params }));
  const transport = Array.isArray(target) ? new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: 'ignore' })
    : new (sse ? SSEClientTransport : StreamableHTTPClientTransport)(new URL(target));
  await client.connect(transport);
  return {
    client, notices, version: transport.protocolVersion ?? '2025',
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    level: level => client.setLoggingLevel(level),
    listen: async () => undefined,
    close: async () => {
      await transport.terminateSession?.();
      await client.close();
    },
  };
});
