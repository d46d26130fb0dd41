// What the TypeScript servers of the matrix have in common: the state behind their tools, one for the process.
export const NOTE = name => `note://${name}/text`;
export const NAMES = ['Ada', 'Alan', 'Grace'];
export const FORM = { message: 'What is your name?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } };
export const PROMPT = { messages: [{ role: 'user', content: { type: 'text', text: 'Say a word' } }], maxTokens: 10 };
export const text = (text, more = {}) => ({ content: [{ type: 'text', text }], ...more });
export const formed = answer => text(`form: ${answer?.action} ${answer?.content?.name}`);
export const sampled = answer => text(`model: ${answer?.content?.text}`);
export const rooted = answer => text(`roots: ${answer?.roots?.map(root => root.uri)}`);
export const completed = value => NAMES.filter(name => name.startsWith(value));

const gates = new Map(), PATIENCE = 20000;
function gate(key) {
  if (!gates.has(key)) gates.set(key, Promise.withResolvers());
  return gates.get(key);
}

// What becomes of the gate, now or soon.
async function passed(key) {
  let timer;
  const late = new Promise(resolve => { timer = setTimeout(resolve, PATIENCE, 'too late'); });
  const state = await Promise.race([gate(key).promise, late]);
  clearTimeout(timer);
  return state;
}

// Reports each step and ends when it is told to: a note that arrives together with the answer would be lost on some clients.
export async function slow({ steps, key }, progress) {
  for (let step = 1; step <= steps; step++) await progress(step, steps);
  return text(`${steps} steps done, ${await passed(`slow ${key}`)}`);
}

export async function proceed({ key }) {
  gate(`slow ${key}`).resolve('told so');
  return text('told');
}

// Says that it has begun, and ends only when it is cancelled.
export async function wait({ key }, signal, progress) {
  await progress(1);
  await new Promise(resolve => signal.aborted ? resolve() : signal.addEventListener('abort', resolve));
  gate(`wait ${key}`).resolve('cancelled');
  return text('cancelled');
}

// Whether the call that waits under this key was cancelled.
export async function wasCancelled({ key }) {
  return text(await passed(`wait ${key}`));
}
