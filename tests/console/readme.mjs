// The pictures of the README: the overview, one decision and the providers, light and dark, after some minutes of traffic.
import { join } from 'node:path';
import { KEY, startGateway, sendTraffic, startBrowser, logIn } from './gateway.mjs';

const directory = process.argv[2];
const minutes = Number(process.env.MINUTES ?? 15);
const gateway = await startGateway('support-bot');
const browser = await startBrowser();
try {
  const end = Date.now() + minutes * 60_000;
  while (Date.now() < end) {
    // Traffic comes and goes, as in a day of work.
    await Promise.all(Array.from({ length: 1 + Math.floor(Math.random() * 4) }, () => sendTraffic(gateway, 6)));
    await new Promise(resolve => setTimeout(resolve, 2000 + Math.random() * 14_000));
  }
  const rescued = await fetch(`${gateway.admin}/api/v1/admin/generations?rescued=true&limit=1`, { headers: { authorization: `Bearer ${KEY}` } });
  const id = (await rescued.json()).data[0].id;
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ colorScheme, viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    await logIn(page, gateway);
    for (const [title, path] of Object.entries({ overview: '', why: `decisions/${id}`, providers: 'providers' })) {
      await page.goto(`${gateway.admin}/console/${path}`);
      await page.screenshot({ path: join(directory, `${title}-${colorScheme}.png`) });
    }
    await context.close();
  }
} finally {
  await browser.close();
  await gateway.stop();
}
