// The official TypeScript client in the suite's client scenarios: node client.mjs auto|legacy URL; the suite says in its environment which.
// It lists all there is, calls every tool listed with what the scenario wants, reads and gets, and fails when anything does.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

console.log = console.info = console.debug = console.error; // the SDK's notes are not for stdout
const [mode, url] = process.argv.slice(2), context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const client = new Client({ name: 'gatehouse-tests', version: '1.0.0' }, {
  versionNegotiation: { mode },
  capabilities: { elicitation: { form: { applyDefaults: true } }, sampling: {}, roots: {} },
});
client.setRequestHandler('elicitation/create', async ({ params }) => ({ action: 'accept',
  // Defaults are the SDK's to fill in; what has none is a yes or a word.
  content: Object.fromEntries(Object.entries(params.requestedSchema.properties).filter(([, { default: given }]) => given === undefined)
    .map(([name, { type }]) => [name, type === 'boolean' ? true : 'word'])) }));
client.setRequestHandler('sampling/createMessage', async () => ({ model: 'none', role: 'assistant', content: { type: 'text', text: 'word' } }));
client.setRequestHandler('roots/list', async () => ({ roots: [{ uri: 'file:///root' }] }));
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

const offered = client.getServerCapabilities() ?? {};
const tools = offered.tools ? (await client.listTools()).tools : [];
const known = { add_numbers: { a: 2, b: 3 }, valid_tool: { region: 'north' }, test_headers: {}, 'my-hyphenated-tool': {},
  test_reconnection: {}, test_client_elicitation_defaults: {}, test_mrtr_echo_state: {}, test_mrtr_no_state: {},
  test_mrtr_unrelated: {}, test_mrtr_no_result_type: {},
  json_schema_echo: { schema: tools.find(tool => tool.name === 'json_schema_2020_12_tool')?.inputSchema } };
const calls = context.toolCalls ?? tools.filter(({ name }) => name in known).map(({ name }) => ({ name, arguments: known[name] }));
// All at once: what belongs to one call must not end up in another.
const done = await Promise.allSettled(calls.map(call => client.callTool(call)));
// A server that leaves out `resultType` is not one this SDK takes an answer from; the scenario wants only that it asks no second time.
console.error(JSON.stringify(done)); // for whoever reads the log
const failed = done.filter(({ reason }) => reason && reason.data?.violation !== 'missing-resultType');
if (failed.length) throw failed[0].reason;
const refused = tools.filter(({ name }) => name.startsWith('invalid_'));
if (refused.length) throw new Error(`listed in spite of their headers: ${refused.map(tool => tool.name)}`);
for (const { uri } of offered.resources ? (await client.listResources()).resources : []) await client.readResource({ uri });
for (const { name } of offered.prompts ? (await client.listPrompts()).prompts : []) await client.getPrompt({ name });
await client.close();
process.exit(0);
