// Looks at the status page as people do: node page.mjs '{"public","admin","key","token","shots"}'; prints a line a check.
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { TOOLS } from './hostile.mjs';

const { public: door, admin, key, token, shots } = JSON.parse(process.argv[2]);
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const VERSION = '2026-07-28';
const PATIENCE = 30_000;
mkdirSync(shots, { recursive: true });

let ids = 0;
async function call(path, name, args = {}) {
  const meta = { 'io.modelcontextprotocol/protocolVersion': VERSION, 'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'page', version: '1' } };
  const named = /^[\x21-\x7e]*$/.test(name) ? name : `=?base64?${Buffer.from(name).toString('base64')}?=`;
  const reply = await fetch(door + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', authorization: `Bearer ${key}`,
      'mcp-protocol-version': VERSION, 'mcp-method': 'tools/call', 'mcp-name': named },
    body: JSON.stringify({ jsonrpc: '2.0', id: ++ids, method: 'tools/call', params: { name, arguments: args, _meta: meta } }),
  });
  return reply.text();
}

let failed = 0;
async function check(what, work) {
  try {
    await work();
    console.log(`ok ${what}`);
  } catch (error) {
    failed += 1;
    console.log(`not ok ${what}: ${String(error?.stack ?? error).split('\n').slice(0, 6).join(' | ')}`);
  }
}
function same(is, should, what = '') {
  const [a, b] = [JSON.stringify(is), JSON.stringify(should)];
  if (a !== b) throw new Error(`${what} is ${a}, not ${b}`);
}
const holds = (so, what) => { if (!so) throw new Error(what); };

// What the page is to show.
for (let n = 0; n < 40; n++) await call('/mcp', 'demo_echo', { text: 'x' });
for (let n = 0; n < 7; n++) await call('/mcp', 'demo_extra_0003');
for (let n = 0; n < 5; n++) await call('/mcp', 'demo_fail');
for (let n = 0; n < 3; n++) await call('/mcp', 'old_add', { a: 1, b: 2 });
for (let n = 0; n < 2; n++) await call('/mcp', 'demo_whoami');
await call('/mcp', 'old_crash');
await call('/mcp', 'gone_x');
await call('/mcp', 'demo_toggle');
for (const name of TOOLS) await call('/hostile', name);
await fetch(door + '/mcp', { method: 'POST', headers: { authorization: 'Bearer wrong' } });

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });

// A page with everything it says and asks for.
async function look(viewport, colorScheme, more = {}) {
  const context = await browser.newContext({ viewport, colorScheme, httpCredentials: { username: 'anybody', password: token, origin: admin }, ...more });
  const page = await context.newPage();
  const seen = { complaints: [], requests: [] };
  page.on('console', message => { if (['error', 'warning'].includes(message.type())) seen.complaints.push(message.text()); });
  page.on('pageerror', error => seen.complaints.push(String(error)));
  page.on('request', request => seen.requests.push(request.url()));
  page.setDefaultTimeout(PATIENCE);
  await page.goto(`${admin}/status`);
  await page.waitForFunction(() => document.getElementById('link').textContent === 'live' && document.querySelectorAll('#tools tbody tr').length > 5);
  return { page, context, seen };
}
const cells = (page, id, row) => page.locator(`#${id} tbody tr`).filter({ has: page.locator('.name').getByText(row, { exact: true }) });
const names = (page, id) => page.locator(`#${id} tbody .name`).allTextContents();
const focused = page => page.evaluate(() => document.activeElement?.id || document.activeElement?.textContent || document.activeElement?.tagName);
const PHONE = { width: 390, height: 844 }, DESK = { width: 1280, height: 900 };

for (const [size, viewport] of [['phone', PHONE], ['desktop', DESK]]) {
  for (const colours of ['light', 'dark']) {
    const { page, context, seen } = await look(viewport, colours);
    const which = `${size}, ${colours}`;
    await page.screenshot({ path: `${shots}/${size}-${colours}.png`, fullPage: true });
    await check(`${which}: no complaint of the browser, and no request to elsewhere`, async () => {
      same(seen.complaints, []);
      holds(seen.requests.length >= 2, 'the page asked for its stream');
      same(seen.requests.filter(url => !url.startsWith(`${admin}/status`) && !url.startsWith('data:')), []);
    });
    await check(`${which}: nothing wider than the screen`, async () => {
      const wide = await page.evaluate(() => [...document.querySelectorAll('body *')].filter(node => {
        const box = node.getBoundingClientRect();
        return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5);
      }).map(node => `${node.tagName}#${node.id}.${node.className}`).slice(0, 5));
      same(wide, []);
      holds(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'it scrolls sideways');
    });
    await check(`${which}: WCAG A and AA, contrast included`, async () => {
      // The policy of the page lets no script in, so it is run from outside of it.
      await page.evaluate(AXE);
      const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations'] }));
      same(found.violations.map(v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 120), v.nodes[0].failureSummary]), []);
      const rules = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['color-contrast'] }));
      holds(rules.passes.some(rule => rule.id === 'color-contrast' && rule.nodes.length > 20), 'contrast was looked at');
    });
    await context.close();
  }
}

const { page, context, seen } = await look(DESK, 'light');
const data = async () => (await fetch(`${admin}/status/data`, { headers: { authorization: `Bearer ${token}` } })).json();

await check('what it shows is what was called', async () => {
  const told = await data();
  const tool = name => told.tools.find(row => row.tool === name);
  same(tool('demo_echo').outcomes, { ok: 40 });
  same(tool('demo_fail').outcomes, { tool_error: 5 });
  same(tool('demo_whoami').outcomes, { denied: 2 });
  const echo = await cells(page, 'tools', 'demo_echo').locator('td').allTextContents();
  same(echo.slice(0, 2), ['40', '0\u202f%']);
  const fail = await cells(page, 'tools', 'demo_fail').locator('td').allTextContents();
  same(fail.slice(0, 3), ['5', '100\u202f%', '5\u00a0tool_error']);
  const servers = await names(page, 'servers');
  same(servers, ['demo', 'gone', 'hostile', 'old']);
  same(await cells(page, 'servers', 'demo').locator('.state').textContent(), 'up');
  same(await cells(page, 'servers', 'gone').locator('.state').textContent(), 'down');
  holds((await cells(page, 'servers', 'gone').locator('.error').textContent()).includes('unavailable'), 'its error');
  holds((await cells(page, 'servers', 'old').locator('th').textContent()).includes('legacy'), 'its era');
  const denials = await page.locator('#denials li').allTextContents();
  holds(denials.some(line => line.includes('demo_whoami') && line.includes('load') && line.includes('×2')), `denials: ${denials}`);
  holds((await page.locator('#changes').textContent()).includes('hidden_gem'), 'the change of a list');
  holds((await page.locator('#refusals').textContent()).includes('credential'), 'what was refused');
});

await check('texts of a hostile server are texts', async () => {
  const shown = await names(page, 'tools');
  holds(shown.includes(TOOLS[0]) && shown.includes(TOOLS[1]), `markup is shown as it is: ${shown}`);
  holds(shown.includes('\\u{202e}evil\\u{2066}\\u{200b}'), 'what turns text is written out');
  holds(shown.every(name => name.length < 200), 'no name without end');
  same(await page.evaluate(() => [globalThis.pwned ?? null, document.querySelectorAll('td script, th script, li script, main img').length]), [null, 0]);
});

await check('it is live', async () => {
  const row = cells(page, 'tools', 'demo_echo').locator('td').first();
  for (let n = 0; n < 3; n++) await call('/mcp', 'demo_echo', { text: 'x' });
  await page.waitForFunction(() => [...document.querySelectorAll('#tools tbody tr')].some(tr => tr.cells[0].textContent.startsWith('demo_echo') && tr.cells[1].textContent === '43'));
  same(await row.textContent(), '43');
  await call('/mcp', 'demo_extra_0008');
  await cells(page, 'tools', 'demo_extra_0008').waitFor();
});

await check('it is used from the keyboard', async () => {
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press('Tab');
  same(await focused(page), 'Skip to the figures');
  const top = await page.locator('.skip').boundingBox();
  holds(top.y >= 0, 'the skip link is to be seen');
  await page.keyboard.press('Enter');
  same(await focused(page), 'main');
  for (let n = 0; n < 10 && await focused(page) !== 'filter'; n++) await page.keyboard.press('Tab');
  same(await focused(page), 'filter');
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle + getComputedStyle(document.activeElement).outlineWidth);
  same(ring, 'solid2px');
  await page.keyboard.type('echo');
  same(await names(page, 'tools'), ['demo_echo']);
  same(await page.locator('#found').textContent(), `0 of 4 servers, 1 of ${(await data()).tools.length} tools`);
  // What comes while one types takes nothing away.
  await call('/mcp', 'demo_echo', { text: 'x' });
  await page.waitForFunction(() => document.querySelector('#tools tbody td').textContent === '44');
  same([await focused(page), await page.inputValue('#filter')], ['filter', 'echo']);
  await page.keyboard.press('Control+A');
  await page.keyboard.press('Delete');
  for (let n = 0; n < 20 && await focused(page) !== 'Calls'; n++) await page.keyboard.press('Tab');
  const sorted = () => page.locator('#tools thead th').evaluateAll(all => all.map(th => th.ariaSort));
  await page.keyboard.press('Enter');
  same(await sorted(), ['none', 'descending', 'none', 'none', 'none', 'none', 'none']);
  same((await names(page, 'tools'))[0], 'demo_echo');
  await page.keyboard.press('Space');
  same(await sorted(), ['none', 'ascending', 'none', 'none', 'none', 'none', 'none']);
  const calls = await page.locator('#tools tbody tr td:nth-child(2)').allTextContents();
  same(calls.map(Number), calls.map(Number).toSorted((a, b) => a - b));
  same(await focused(page), 'Calls', 'the focus stays');
});

await check('it stands still when it is asked to, and goes on', async () => {
  await page.locator('#pause').focus();
  await page.keyboard.press('Enter');
  same(await page.locator('#link').textContent(), 'paused');
  same(await page.locator('#pause').getAttribute('aria-pressed'), 'true');
  await call('/mcp', 'demo_extra_0001');
  await page.keyboard.press('Enter');
  await cells(page, 'tools', 'demo_extra_0001').waitFor();
});

await check('nothing was complained of all the while', async () => same(seen.complaints, []));
await context.close();

await check('without the password there is no page', async () => {
  const stranger = await browser.newContext();
  const reply = await stranger.request.get(`${admin}/status`);
  same([reply.status(), (await reply.text()).includes('Gatehouse</h1>')], [401, false]);
  await stranger.close();
});

await check('without script it says so', async () => {
  const quiet = await browser.newContext({ javaScriptEnabled: false, httpCredentials: { username: 'anybody', password: token, origin: admin } });
  const plain = await quiet.newPage();
  await plain.goto(`${admin}/status`);
  await plain.getByText('needs its script').waitFor({ timeout: PATIENCE });
  await quiet.close();
});

await browser.close();
process.exit(failed ? 1 : 0);
