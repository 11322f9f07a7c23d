// Pictures of the pages, into the directory that is named. Look at them before a release.
import { join } from 'node:path';
import { KEY, startGateway, sendTraffic, startBrowser, logIn } from './gateway.mjs';

const directory = process.argv[2] ?? '.';
const gateway = await startGateway('support-bot');
const browser = await startBrowser();
try {
  const ids = await sendTraffic(gateway, Number(process.env.SHOTS_REQUESTS ?? 60));
  // A decision that a second attempt saved has the most to show.
  const rescued = await fetch(`${gateway.admin}/api/v1/admin/generations?rescued=true&limit=1`, { headers: { authorization: `Bearer ${KEY}` } });
  const id = (await rescued.json()).data[0]?.id ?? ids.at(-1);
  for (const [name, colorScheme, width] of [['light', 'light', 1280], ['dark', 'dark', 1280], ['narrow', 'light', 360]]) {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } });
    const page = await context.newPage();
    await page.goto(`${gateway.admin}/console/login`);
    await page.screenshot({ path: join(directory, `login-${name}.png`) });
    await logIn(page, gateway);
    const pages = {
      overview: './', decisions: 'decisions', spend: 'spend', why: `decisions/${id}?why_not=sim-thrift&replay=true`,
      providers: 'providers', models: 'models', keys: 'keys', playground: 'try', calibration: 'calibration', targets: 'targets', refused: 'refused',
      configuration: 'config', about: 'about',
    };
    for (const [title, path] of Object.entries(pages)) {
      await page.goto(`${gateway.admin}/console/${path}`.replace('/./', '/'));
      await page.screenshot({ path: join(directory, `${title}-${name}.png`), fullPage: true });
    }
    await context.close();
  }
} finally {
  await browser.close();
  await gateway.stop();
}
