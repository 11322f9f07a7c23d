// Pictures of the pages, into the directory that is named. Look at them before a release.
import { join } from 'node:path';
import { KEY, startGateway, sendTraffic, startBrowser, logIn } from './gateway.mjs';

const directory = process.argv[2] ?? '.';
const gateway = await startGateway('support-bot');
const browser = await startBrowser();
try {
  const ids = await sendTraffic(gateway, Number(process.env.SHOTS_REQUESTS ?? 60));
  // Some keys, accounts and teams beside that of the configuration.
  const put = (method, path, body) => fetch(`${gateway.admin}${path}`, { method, headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }, body: JSON.stringify(body) });
  await put('PUT', '/api/v1/admin/teams/product', { limit: 0.002, limit_reset: 'daily' });
  await put('PUT', '/api/v1/admin/accounts/support-bot', { team: 'product', limit: 25, limit_reset: 'monthly' });
  await put('PUT', '/api/v1/admin/accounts/nightly', { limit: 4, concurrency: 2 });
  await put('POST', '/api/v1/keys', { name: 'ci', account: 'nightly', limit: 5, limit_reset: 'daily', requests_per_minute: 60 });
  await put('POST', '/api/v1/keys', { name: 'old-laptop', disabled: true });
  // A decision that a second attempt saved has the most to show.
  const rescued = await fetch(`${gateway.admin}/api/v1/admin/generations?rescued=true&limit=1`, { headers: { authorization: `Bearer ${KEY}` } });
  const id = (await rescued.json()).data[0]?.id ?? ids.at(-1);
  for (const [name, colorScheme, width] of [['light', 'light', 1280], ['dark', 'dark', 1280], ['narrow', 'light', 390], ['wide', 'light', 1920]]) {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } });
    const page = await context.newPage();
    await page.goto(`${gateway.admin}/console/login`);
    await page.screenshot({ path: join(directory, `login-${name}.png`) });
    await logIn(page, gateway);
    const pages = {
      overview: './', decisions: 'decisions', spend: 'spend', why: `decisions/${id}?why_not=sim-thrift&replay=true`,
      providers: 'providers', models: 'models', keys: 'keys', 'one-key': 'keys/support-bot', 'new-key': 'new/key', 'ask-disable': 'keys/ci/disable', 'in-file': 'keys/support-bot/change', accounts: 'accounts', 'new-account': 'new/account', audit: 'audit', ledger: 'ledger', playground: 'try', calibration: 'calibration', targets: 'targets', refused: 'refused',
      configuration: 'config', about: 'about',
    };
    for (const [title, path] of Object.entries(pages)) {
      await page.goto(`${gateway.admin}/console/${path}`.replace('/./', '/'), { waitUntil: 'networkidle' });
      await page.screenshot({ path: join(directory, `${title}-${name}.png`), fullPage: true });
    }
    await context.close();
  }
} finally {
  await browser.close();
  await gateway.stop();
}
