// What the TypeScript clients of the matrix do with each server: reads jobs from stdin, prints a line of JSON for each.
import { text as read } from 'node:stream/consumers';

console.log = console.info = console.debug = console.error; // the SDK's notes must not mix with our JSON
export const CAPABILITIES = { elicitation: { form: {} }, sampling: {}, roots: { listChanged: true } };
export const ANSWERS = {
  'elicitation/create': async () => ({ action: 'accept', content: { name: 'Ada' } }),
  'sampling/createMessage': async () => ({ model: 'none', role: 'assistant', content: { type: 'text', text: 'sampled' } }),
  'roots/list': async () => ({ roots: [{ uri: 'file:///matrix' }] }),
};

// A place where notices are left and waited for.
export class Box {
  #notices = [];
  #wake = () => {};
  put(notice) { this.#notices.push(notice); this.#wake(); }
  // The first notice that fits; undefined if none comes within `seconds`.
  async take(fits, seconds) {
    const until = Date.now() + seconds * 1000;
    for (;;) {
      const at = this.#notices.findIndex(fits);
      if (at >= 0) return this.#notices.splice(at, 1)[0];
      if (Date.now() >= until) return undefined;
      await within(new Promise(resolve => { this.#wake = resolve; }), (until - Date.now()) / 1000).catch(() => {});
    }
  }
}

async function within(promise, seconds) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(reject, seconds * 1000, new Error('hangs')); });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// `connect(job)` gives { client, version, call(name, arguments, options), listen(), notices, close() }.
export async function run(connect) {
  const { jobs, patience } = JSON.parse(await read(process.stdin));
  for (const job of jobs) {
    const done = { label: job.label, features: {} };
    let peer;
    try {
      peer = await within(connect(job), patience);
      done.version = peer.version;
    } catch (error) {
      done.failed = String(error.message ?? error).slice(0, 500);
    }
    for (const [name, step] of Object.entries(peer ? STEPS : {})) {
      try {
        done.features[name] = { got: await within(step(peer, job), patience) };
      } catch (error) {
        done.features[name] = { error: `${error?.code ?? error?.name}: ${error?.message}`.slice(0, 500) };
      }
    }
    if (peer) await within(peer.close(), patience).catch(() => {});
    process.stdout.write(`${JSON.stringify(done)}\n`);
  }
  process.exit(0);
}

const said = result => result.content[0].text;
const names = async ({ client }, prefix) => (await all(cursor => client.listTools(cursor), 'tools')).map(tool => tool.name)
  .filter(name => name.startsWith(prefix)).map(name => name.slice(prefix.length));

// Every page, whoever turns them.
async function all(list, key) {
  const items = [];
  for (let cursor; ;) {
    const page = await list(cursor && { cursor });
    items.push(...page[key]);
    if (!(cursor = page.nextCursor)) return items;
  }
}

const STEPS = {
  list: async (peer, { prefix }) => (await names(peer, prefix)).filter(name => !name.startsWith('extra_')).sort(),
  call: async (peer, { prefix, words }) => said(await peer.call(`${prefix}echo`, { text: words })),
  progress: async (peer, { prefix, key }) => {
    const notes = [];
    const onprogress = ({ progress, total }) => {
      notes.push([progress, total]);
      if (progress === 3) peer.call(`${prefix}proceed`, { key });
    };
    return [said(await peer.call(`${prefix}slow`, { steps: 3, key }, { onprogress })), notes];
  },
  cancel: async (peer, { prefix, key }) => {
    const stop = new AbortController();
    const call = peer.call(`${prefix}wait`, { key }, { signal: stop.signal, onprogress: () => stop.abort('enough') });
    const ended = await call.then(said, () => 'given up');
    return [ended, said(await peer.call(`${prefix}was_cancelled`, { key }))];
  },
  error: async (peer, { prefix }) => {
    const failed = await peer.call(`${prefix}fail`, {});
    const unknown = await peer.call(`${prefix}no_such_tool`, {}).then(({ isError }) => isError ? 'refused' : 'answered', () => 'refused');
    return [failed.isError, said(failed), unknown];
  },
  read: async ({ client }, { uri }) => {
    const listed = (await all(cursor => client.listResources(cursor), 'resources')).some(resource => resource.uri === uri);
    return [listed, (await client.readResource({ uri })).contents[0].text];
  },
  prompt: async ({ client }, { prefix }) => {
    const listed = (await all(cursor => client.listPrompts(cursor), 'prompts')).some(({ name }) => name === `${prefix}greet`);
    return [listed, (await client.getPrompt({ name: `${prefix}greet`, arguments: { name: 'Ada' } })).messages[0].content.text];
  },
  completion: async ({ client }, { prefix }) =>
    (await client.complete({ ref: { type: 'ref/prompt', name: `${prefix}greet` }, argument: { name: 'name', value: 'A' } })).completion.values,
  list_changed: async (peer, { prefix }) => {
    const ears = await peer.listen(), number = name => Number(name.split('extra_')[1] ?? 0);
    let heard = 'no notice';
    try {
      // A client of 2025 cannot know when its stream for notices is open: until then they go nowhere, and it changes again.
      for (let tries = 0; tries < 20; tries++) {
        const extra = said(await peer.call(`${prefix}change`, {}));
        // A notice may be of what another client changed: then its own is still to come.
        while (await peer.notices.take(({ what }) => what === 'tools', 1)) {
          if (Math.max(...(await names(peer, prefix)).map(number)) >= number(extra)) return 'fresh';
          heard = 'an old list';
        }
      }
      return heard;
    } finally {
      await ears?.close();
    }
  },
  elicitation: async (peer, { prefix }) => said(await peer.call(`${prefix}ask_form`, {})),
  sampling: async (peer, { prefix }) => said(await peer.call(`${prefix}ask_model`, {})),
  roots: async (peer, { prefix }) => said(await peer.call(`${prefix}ask_roots`, {})),
  logging: async (peer, { prefix, key }) => {
    await peer.level?.('debug');
    await peer.call(`${prefix}log`, { text: key }, { logs: true });
    const { level, data } = await peer.notices.take(({ what, data }) => what === 'log' && data === key, 5) ?? {};
    return [level, data === key];
  },
};
