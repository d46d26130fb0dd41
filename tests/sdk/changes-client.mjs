// The official TypeScript client watches: node changes-client.mjs URL PATIENCE; reads steps as JSON from stdin, prints what each brought.
// A step calls a tool that changes something, waits for the notice, and asks anew: from the cache, again from the cache, past the cache.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { text } from 'node:stream/consumers';

console.log = console.info = console.debug = console.error; // the SDK's notes must not mix with our JSON
const [url, patience] = process.argv.slice(2);
const steps = JSON.parse(await text(process.stdin));
const client = new Client({ name: 'gatehouse-tests', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
let notices = [], wake = () => {};
const note = (what, uri) => { notices.push({ what, uri, when: performance.now() }); wake(); };
client.setNotificationHandler('notifications/tools/list_changed', () => note('tools'));
client.setNotificationHandler('notifications/prompts/list_changed', () => note('prompts'));
client.setNotificationHandler('notifications/resources/list_changed', () => note('resources'));
client.setNotificationHandler('notifications/resources/updated', ({ params }) => note('updated', params.uri));
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const subscription = await client.listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true,
  resourceSubscriptions: [...new Set(steps.flatMap(step => step.uri ?? []))].sort() });

// Names as they are now and how long they may be kept.
async function fetchNames({ what, uri }, cacheMode) {
  const result = await ({ tools: () => client.listTools(undefined, { cacheMode }), prompts: () => client.listPrompts(undefined, { cacheMode }),
    resources: () => client.listResources(undefined, { cacheMode }), updated: () => client.readResource({ uri }, { cacheMode }) })[what]();
  const names = result.contents?.map(part => part.text ?? '') ?? result[what].map(item => what === 'resources' ? item.uri : item.name);
  return { names, ttl: result.ttlMs };
}

// The time of the first notice of this step, undefined if none comes; and how many others came before.
async function noticed(step, early) {
  const deadline = AbortSignal.timeout(patience * 1000), ended = new Promise(resolve => { deadline.onabort = resolve; });
  while (!deadline.aborted) {
    const woken = new Promise(resolve => { wake = resolve; });
    while (notices.length) {
      const notice = notices.shift();
      if (notice.what === step.what && notice.uri === step.uri) return [notice.when, early];
      early++;
    }
    await Promise.race([woken, ended]);
  }
  return [undefined, early];
}

const done = [];
for (const step of steps) {
  if (!step.toggle) await fetchNames(step, 'use'); // so that there is something old to be kept
  const before = notices.splice(0).length, began = performance.now();
  const answer = await client.callTool({ name: step.tool, arguments: step.arguments });
  const wanted = step.name ?? answer.content[0].text;
  const [when, early] = await noticed(step, before);
  // What is only told of goes on until the tool is called again.
  if (step.toggle) await client.callTool({ name: step.tool, arguments: step.arguments });
  const asked = [];
  for (const mode of step.toggle ? [] : ['use', 'use', 'bypass']) asked.push(await fetchNames(step, mode));
  const delay = when === undefined ? null : (when - began) / 1000, error = answer.isError ?? false;
  const fresh = asked.map(({ names }) => names.some(name => name.endsWith(wanted)));
  const same = asked.every(({ names }) => JSON.stringify(names) === JSON.stringify(asked[0].names));
  const ttl = asked.length ? Math.min(...asked.map(({ ttl }) => ttl ?? 0)) : null;
  done.push({ delay, early, fresh, same, ttl, wanted, error });
}
const honored = subscription.honoredFilter;
await client.close();
process.stdout.write(JSON.stringify({ honored, steps: done }) + '\n', () => process.exit(0));
