// A gateway with simulated providers, a browser that may reach nothing but it, and traffic for the pages.
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

export const KEY = 'sk-console-checks-0123456789';
export const KEY_NAME = 'team <b>blue</b>';
const SCRIPT_NAME = '<script>document.title="broken"</script>';

const freePort = () => new Promise((resolve, reject) => {
  const server = createServer().once('error', reject);
  server.listen(0, '127.0.0.1', () => { const { port } = server.address(); server.close(() => resolve(port)); });
});

export async function startGateway(keyName = KEY_NAME) {
  const [port, adminPort] = [await freePort(), await freePort()];
  const directory = await mkdtemp(join(tmpdir(), 'pointsman-console-'));
  const env = {
    PATH: process.env.PATH,
    CHECKS_KEY: KEY,
    POINTSMAN__SERVER__BIND: `127.0.0.1:${port}`,
    POINTSMAN__ADMIN__BIND: `127.0.0.1:${adminPort}`,
    POINTSMAN__SIMULATION__MODE: 'on',
    POINTSMAN__LEDGER__DATA_DIR: join(directory, 'ledger'),
    POINTSMAN__LEDGER__DURABILITY: 'group',
    POINTSMAN__KEYS: `[{ name = "${keyName}", env = "CHECKS_KEY", scopes = ["inference", "read", "admin"] }]`,
  };
  const child = spawn(process.env.POINTSMAN_BINARY, [], { cwd: directory, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.on('data', data => { log += data; });
  const gateway = {
    api: `http://127.0.0.1:${port}`,
    admin: `http://127.0.0.1:${adminPort}`,
    async stop() {
      child.kill('SIGTERM');
      await new Promise(resolve => { child.exitCode === null ? child.once('exit', resolve) : resolve(); });
      await rm(directory, { recursive: true, force: true });
    },
  };
  for (let tries = 0; tries < 300; tries++) {
    if (child.exitCode !== null) throw new Error(`the gateway ended: ${log}`);
    try { if ((await fetch(`${gateway.admin}/health/live`)).ok) return gateway; } catch { /* not yet */ }
    await new Promise(resolve => setTimeout(resolve, 100));
  }
  throw new Error(`the gateway does not answer: ${log}`);
}

// Requests of several kinds. Returns the ids of the generations that were answered.
export async function sendTraffic(gateway, count) {
  const kinds = [
    { model: 'auto' },
    { model: 'auto', metadata: { objective: 'cheapest' } },
    { model: 'auto', metadata: { objective: 'fastest' } },
    { model: 'auto', metadata: { objective: 'reliable' } },
    { model: 'auto', provider: { order: ['sim-flaky'] } },
    { model: SCRIPT_NAME },
  ];
  const ids = [];
  for (let n = 0; n < count; n++) {
    const body = { ...kinds[n % kinds.length], stream: n % 2 === 0, max_tokens: 60, messages: [{ role: 'user', content: `Say ${n}.` }] };
    const answer = await fetch(`${gateway.api}/api/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'user-agent': '<img src=x onerror=alert(1)>' },
      body: JSON.stringify(body),
    });
    await answer.text();
    const id = answer.headers.get('x-generation-id');
    if (id) ids.push(id);
  }
  return ids;
}

export async function startBrowser() {
  return chromium.launch({
    executablePath: process.env.CONSOLE_BROWSER,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'],
  });
}

export async function logIn(page, gateway) {
  await page.goto(`${gateway.admin}/console/`);
  await page.fill('#key', KEY);
  await page.press('#key', 'Enter');
  await page.waitForURL(url => !url.pathname.endsWith('login'));
}
