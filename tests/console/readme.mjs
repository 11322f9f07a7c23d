// The pictures of the README and the documents: the overview, one decision and the providers, light and dark, after some minutes of traffic.
import { join } from 'node:path';
import { KEY, startGateway, sendTraffic, startBrowser, logIn } from './gateway.mjs';

const directory = process.argv[2];
const minutes = Number(process.env.MINUTES ?? 5);
const gateway = await startGateway('support-bot');
const browser = await startBrowser();
try {
  console.log(`${minutes} minutes of traffic, then the pictures; MINUTES sets another time`);
  const end = Date.now() + minutes * 60_000;
  while (Date.now() < end) {
    // Traffic comes and goes, as in a day of work.
    await Promise.all(Array.from({ length: 1 + Math.floor(Math.random() * 4) }, () => sendTraffic(gateway, 6)));
    await new Promise(resolve => setTimeout(resolve, Math.random() * 8_000));
  }
  // A decision that another provider saved, with the same model, has the most to show.
  const answer = await fetch(`${gateway.admin}/api/v1/admin/generations?rescued=true&limit=100`, { headers: { authorization: `Bearer ${KEY}` } });
  const rescued = (await answer.json()).data;
  const { id } = rescued.find(row => row.decision_code === 'provider_fallback') ?? rescued[0];
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ colorScheme, viewport: { width: 1440, height: 1000 } });
    const page = await context.newPage();
    await logIn(page, gateway);
    for (const [title, path] of Object.entries({ overview: '', why: `decisions/${id}`, providers: 'providers' })) {
      await page.goto(`${gateway.admin}/console/${path}`, { waitUntil: 'networkidle' });
      await page.screenshot({ path: join(directory, `${title}-${colorScheme}.png`) });
    }
    await context.close();
  }
} finally {
  await browser.close();
  await gateway.stop();
}
