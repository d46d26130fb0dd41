// The official TypeScript client: node client.mjs TARGET CALLS lists all tools and makes all calls; prints what came back as JSON.
// TARGET is a URL or an argv, CALLS a list of [name, arguments], both as JSON.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

console.log = console.info = console.debug = console.error; // the SDK's notes must not mix with our JSON
const [target, calls] = process.argv.slice(2).map(argument => JSON.parse(argument));
const transport = typeof target === 'string' ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: 'ignore' });
// No capabilities: what a server offers must not depend on who asks, us or the gateway.
const client = new Client({ name: 'gatehouse-tests', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
await client.connect(transport);
const { tools } = await client.listTools();
const answers = [];
for (const [name, args] of calls) {
  const progress = [];
  const onprogress = ({ progress: done, total, message }) => progress.push([done, total ?? null, message ?? null]);
  try {
    answers.push({ result: await client.callTool({ name, arguments: args }, { onprogress }), progress });
  } catch (error) {
    answers.push({ error: error.code ?? String(error), progress });
  }
}
const version = client.getNegotiatedProtocolVersion();
await client.close();
process.stdout.write(JSON.stringify({ version, tools, answers }) + '\n', () => process.exit(0));
