// The official TypeScript client signs in: node auth-client.mjs URL TOOL ARGUMENTS; prints the answer and the token as JSON.
// All of OAuth is the SDK's: from the 401 to the token. This is the storage and the browser that every client brings itself.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

console.log = console.info = console.debug = console.error; // the SDK's notes must not mix with our JSON
const [url, name, args] = process.argv.slice(2);
const callback = 'http://127.0.0.1:1/callback';

class Storage {
  redirectUrl = callback;
  clientMetadata = { client_name: 'gatehouse-tests', redirect_uris: [callback], token_endpoint_auth_method: 'none' };
  state() { return 'as good as any'; }
  clientInformation() { return this.information; }
  saveClientInformation(information) { this.information = information; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  codeVerifier() { return this.verifier; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  redirectToAuthorization(address) { this.address = address; }
}

// A browser with a user who signs in and agrees; returns the parameters of the callback.
async function browse(address) {
  const cookies = new Map();
  let next = { url: String(address), init: {} };
  for (let steps = 0; steps < 20; steps++) {
    if (next.url.startsWith(callback)) return new URL(next.url).searchParams;
    const headers = { ...next.init.headers, cookie: [...cookies].map(pair => pair.join('=')).join('; ') };
    const response = await fetch(next.url, { ...next.init, headers, redirect: 'manual' });
    for (const cookie of response.headers.getSetCookie()) {
      const [key, value] = cookie.split(';')[0].split(/=(.*)/s);
      value && !/expires=Thu, 01 Jan 1970/i.test(cookie) ? cookies.set(key, value) : cookies.delete(key);
    }
    const page = await response.text(), location = response.headers.get('location');
    if (location) { next = { url: new URL(location, next.url).href, init: {} }; continue; }
    const action = page.match(/<form[^>]* action="([^"]+)"/)?.[1], prompt = page.match(/name="prompt" value="(\w+)"/)?.[1];
    if (!action) throw new Error(`${response.status} from ${next.url}: ${page.slice(-2000)}`);
    next = { url: new URL(action, next.url).href, init: { method: 'POST', body: new URLSearchParams({ prompt, login: 'ada', password: 'any' }) } };
  }
  throw new Error(`no end at ${next.url}`);
}

const storage = new Storage();
const connect = async () => {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: storage });
  const client = new Client({ name: 'gatehouse-tests', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
  try {
    await client.connect(transport);
    return client;
  } catch (error) {
    if (!(error instanceof UnauthorizedError) || storage.saved) throw error;
    const parameters = await browse(storage.address);
    if (parameters.get('state') !== storage.state()) throw new Error(`state ${parameters}`);
    await transport.finishAuth(parameters);
  }
};
const client = await connect() ?? await connect();
const result = await client.callTool({ name, arguments: JSON.parse(args) });
const version = client.getNegotiatedProtocolVersion();
await client.close();
const { access_token: token, scope } = storage.saved;
process.stdout.write(JSON.stringify({ version, result, token, scope }) + '\n', () => process.exit(0));
