// Checks of every page of the console in a browser. Prints one line per check, and ends with a count.
import { createServer, request as httpRequest } from 'node:http';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import { KEY_NAME, startGateway, sendTraffic, startBrowser, logIn } from './gateway.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const MOST_BYTES = 150_000;
const gateway = await startGateway();
const browser = await startBrowser();
let failed = 0;
let passed = 0;

async function check(name, run) {
  try {
    await run();
    passed += 1;
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}\n      ${String(error.message ?? error).split('\n').slice(0, 12).join('\n      ')}`);
  }
}
const assert = (is, message) => { if (!is) throw new Error(message); };

// A context whose pages may reach the gateway only, and that notes whatever is wrong.
async function open(options = {}) {
  const origin = options.origin ?? gateway.admin;
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, bypassCSP: false, timezoneId: 'UTC', ...options.context });
  const troubles = [];
  await context.route('**', route => {
    if (route.request().url().startsWith(origin) || route.request().url().startsWith('data:')) return route.continue();
    troubles.push(`asked another host: ${route.request().url()}`);
    return route.abort();
  });
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', event => console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`));
  });
  const page = await context.newPage();
  page.on('console', message => { if (message.type() === 'error') troubles.push(message.text()); });
  page.on('pageerror', error => troubles.push(error.message));
  return { context, page, troubles };
}

// The bodies of all answers to a page, its style and its script. An answer without a body counts as an empty one.
async function bodiesOf(page, path) {
  const bodies = [];
  const add = response => bodies.push(response.body().catch(() => Buffer.alloc(0)));
  page.on('response', add);
  await page.goto(url(path), { waitUntil: 'networkidle' });
  page.off('response', add);
  return Promise.all(bodies);
}
const total = sizes => sizes.reduce((sum, size) => sum + size, 0);

const ids = await sendTraffic(gateway, 24);
const why = `decisions/${ids.at(-1)}`;
const pages = { overview: '', decisions: 'decisions', spend: 'spend', why: `${why}?why_not=sim-thrift&replay=true`, providers: 'providers', models: 'models', keys: 'keys', 'one key': `keys/${encodeURIComponent(KEY_NAME)}`, 'new key': 'new/key', 'change a key': `keys/${encodeURIComponent(KEY_NAME)}/change`, accounts: 'accounts', 'new account': 'new/account', audit: 'audit', ledger: 'ledger', playground: 'try', calibration: 'calibration', targets: 'targets', 'what if': 'what-if', shadows: 'shadows', regret: 'regret', refused: 'refused', configuration: 'config', 'all keys': 'config?source=all', prices: 'prices?model=meadow%2Fsmall&provider=sim-thrift&prompt=1&completion=2', about: 'about', 'no such page': 'no-such', 'bad filter': 'decisions?status=odd' };
const url = path => `${gateway.admin}/console/${path}`;

try {
  for (const colorScheme of ['light', 'dark']) {
    const { context, page, troubles } = await open({ context: { colorScheme } });
    const audit = async name => {
      // Evaluated by the protocol, so that the policy of the page stays as it is.
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert(serious.length === 0, serious.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)} (${nodes.length})\n${nodes[0].failureSummary}`).join('\n'));
      assert(troubles.length === 0, `${name}: ${troubles.join('; ')}`);
    };
    await check(`login, ${colorScheme}`, async () => { await page.goto(url('login')); await audit('login'); });
    await logIn(page, gateway);
    for (const [name, path] of Object.entries(pages)) {
      await check(`${name}, ${colorScheme}: accessible, no error, no other host`, async () => {
        const response = await page.goto(url(path));
        const expected = { 'no such page': 404, 'bad filter': 400 }[name] ?? 200;
        assert(response.status() === expected, `status ${response.status()}`);
        // The browser reports statuses of errors as console errors.
        troubles.splice(0, troubles.length, ...troubles.filter(text => expected === 200 || !text.includes(`status of ${expected}`)));
        await audit(name);
        assert(await page.locator('h1').count() === 1, 'one h1');
      });
    }
    await context.close();
  }

  await check('a page with its style and script stays below 150 kB', async () => {
    const { context, page } = await open();
    await logIn(page, gateway);
    for (const path of Object.values(pages)) {
      const bytes = total((await bodiesOf(page, path)).map(body => body.length));
      assert(bytes > 5_000 && bytes < MOST_BYTES, `${path}: ${bytes} bytes`);
      const script = await (await page.request.get(await page.locator('script').first().evaluate(element => element.src))).body();
      assert(script.length < 25_000, `console.js: ${script.length} bytes`);
    }
    await context.close();
  });

  await check('the first page takes at most 45 kB packed, with its style and script', async () => {
    const { context, page } = await open();
    for (const first of ['login', '']) {
      const bytes = total((await bodiesOf(page, first)).map(body => gzipSync(body).length));
      assert(bytes > 5_000 && bytes <= 45_000, `${first}: ${bytes} bytes`);
      if (first === 'login') await logIn(page, gateway);
    }
    await context.close();
  });

  await check('at 360 pixels nothing scrolls sideways but tables in their boxes', async () => {
    const { context, page } = await open({ context: { viewport: { width: 360, height: 740 } } });
    await logIn(page, gateway);
    for (const path of ['login', ...Object.values(pages)]) {
      await page.goto(url(path));
      const current = await page.locator('nav [aria-current]').evaluateAll(found => found.map(it => it.getBoundingClientRect()));
      assert(current.every(({ left, right }) => left >= 0 && right <= 360), `${path}: the name of the page is in view`);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      const wide = await page.evaluate(() => [...document.querySelectorAll('body *')].filter(element => !element.closest('.scroll, nav, pre, .skip') && element.getBoundingClientRect().right > 361).map(element => element.outerHTML.slice(0, 100)));
      assert(width <= 360, `${path}: ${width} pixels wide: ${wide.slice(0, 3).join(' | ')}`);
    }
    await context.close();
  });

  await check('keys: help opens and closes, g goes, j and Enter open a decision, / finds the filter', async () => {
    const { context, page } = await open();
    await logIn(page, gateway);
    await page.keyboard.press('?');
    assert(await page.locator('dialog[open]').count() === 1, '? opens the list of keys');
    await page.keyboard.press('Escape');
    assert(await page.locator('dialog[open]').count() === 0, 'Esc closes it');
    await page.keyboard.press('g');
    await page.keyboard.press('d');
    await page.waitForURL('**/console/decisions');
    await page.keyboard.press('/');
    assert(await page.evaluate(() => document.activeElement.name) === 'model', '/ focuses the filter');
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/console/decisions/gen-*');
    const outline = await page.evaluate(() => { document.querySelector('.crumbs a').focus(); return getComputedStyle(document.activeElement).outlineStyle; });
    assert(outline !== undefined, 'focus is visible');
    await context.close();
  });

  await check('every control is reached with Tab and shows its focus', async () => {
    const { context, page } = await open();
    await logIn(page, gateway);
    await page.goto(url(why));
    const controls = await page.evaluate(() => [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, summary')].filter(element => element.checkVisibility() && !element.closest('dialog')).length);
    const seen = new Set();
    for (let n = 0; n < controls + 5; n++) {
      await page.keyboard.press('Tab');
      const at = await page.evaluate(() => {
        const element = document.activeElement;
        element.dataset.seen ??= String(Math.random());
        const style = getComputedStyle(element);
        return [element.dataset.seen, element.tagName, style.outlineStyle, style.outlineWidth];
      });
      if (at[1] === 'BODY') continue;
      assert(at[2] !== 'none' && at[3] !== '0px', `no visible focus on ${at[1]}`);
      seen.add(at[0]);
    }
    assert(seen.size >= controls, `${seen.size} of ${controls} controls reached`);
    await context.close();
  });

  await check('theme and time zone can be switched, and are kept', async () => {
    const { context, page } = await open({ context: { timezoneId: 'Asia/Kolkata' } });
    await logIn(page, gateway);
    await page.goto(url('decisions'));
    const zone = async () => [await page.textContent('[data-zone]'), await page.locator('[data-zone-name]').first().textContent()].join();
    assert((await zone()).match(/^Asia\/.*,local$/), `the zone of the browser: ${await zone()}`);
    const [before, background] = [await page.locator('td time').first().textContent(), await page.evaluate(() => getComputedStyle(document.body).backgroundColor)];
    await page.click('[data-zone]');
    await page.click('[data-theme-switch]');
    await page.reload();
    assert(await page.evaluate(() => getComputedStyle(document.body).backgroundColor) !== background, 'another background');
    assert(await page.locator('td time').first().textContent() !== before, 'another zone');
    assert(await zone() === 'UTC,UTC', await zone());
    assert(await page.evaluate(() => Object.keys(localStorage).sort().join()) === 'theme,zone', 'nothing else is kept');
    await context.close();
  });

  await check('a page that can no longer be refreshed says so, until it can', async () => {
    const { context, page } = await open();
    await logIn(page, gateway);
    await context.route('**/console/decisions', route => (route.request().isNavigationRequest() ? route.fallback() : route.abort()));
    await page.goto(url('decisions'));
    await page.waitForSelector('#stale:not([hidden])', { timeout: 12_000 });
    assert((await page.textContent('#stale')).includes('could not be refreshed'), 'the reason');
    await context.unroute('**/console/decisions');
    await page.waitForSelector('#stale', { state: 'hidden', timeout: 12_000 });
    await context.close();
  });

  await check('a new decision appears by itself', async () => {
    const { context, page } = await open();
    await logIn(page, gateway);
    await page.goto(url('decisions'));
    const [id] = await sendTraffic(gateway, 1);
    await page.waitForSelector(`a[href="decisions/${id}"]`, { timeout: 12_000 });
    await page.click('text=Live');
    assert(await page.textContent('button.live') === 'Paused', 'it can be paused');
    await context.close();
  });

  await check('the playground previews while one types, and shows an answer as it comes', async () => {
    const { context, page } = await open();
    await logIn(page, gateway);
    await page.goto(url('try'));
    await page.fill('[name=model]', 'meadow/small');
    await page.selectOption('[name=if_endpoint]', 'meadow/small@sim-thrift');
    await page.selectOption('[name=if_circuit]', 'open');
    await page.waitForFunction(() => document.querySelectorAll('#preview .pair section').length === 2);
    await page.fill('[name=max_tokens]', '20');
    await page.click('[data-send-button]');
    await page.waitForFunction(() => document.querySelector('[data-sent-facts]').textContent.includes('tokens/s'), null, { timeout: 20_000 });
    assert(await page.evaluate(() => document.querySelector('[data-sent-text]').textContent.length > 5), 'no text came');
    await context.close();
  });

  await check('moving a slider updates the candidates within 150 ms at p95, and the last position wins', async () => {
    const { context, page } = await open();
    await logIn(page, gateway);
    await page.goto(url('try'));
    await page.fill('[name=model]', 'meadow/small');
    await page.selectOption('[name=if_endpoint]', 'meadow/small@sim-thrift');
    // With the keyboard, as with the pointer.
    await page.locator('[name=if_price] + input[type=range]').press('ArrowRight');
    await page.waitForFunction(() => document.querySelectorAll('#preview .pair section').length === 2);
    assert(await page.inputValue('[name=if_price]') === '0.6', 'the slider fills the field in');
    assert((await page.textContent('#price')).includes('$'), 'what sending would cost');
    // From the event to the new candidates, in the page itself.
    const times = await page.evaluate(async () => {
      const [field, part, times] = [document.querySelector('[name=if_price] + input[type=range]'), document.getElementById('preview'), []];
      for (let n = 0; n < 40; n++) {
        const began = performance.now();
        const shown = new Promise(resolve => new MutationObserver((_, observer) => { observer.disconnect(); resolve(); }).observe(part, { childList: true }));
        field.value = String((n % 40) / 10);
        field.dispatchEvent(new Event('input', { bubbles: true }));
        await shown;
        times.push(performance.now() - began);
      }
      return times.sort((one, other) => one - other);
    });
    const p95 = times[Math.floor(times.length * 0.95) - 1];
    assert(p95 <= 150, `${p95.toFixed(0)} ms at p95, ${times[20].toFixed(0)} ms in the median`);

    // The answer to the first position is held back until that to the last is shown.
    let release;
    const held = new Promise(resolve => { release = resolve; });
    let asked = 0;
    await context.route('**/console/try', async route => {
      if (route.request().method() !== 'POST') return route.fallback();
      asked += 1;
      const response = await route.fetch();
      if (asked === 1) await held;
      return route.fulfill({ response });
    });
    const arrived = page.waitForRequest(request => request.method() === 'POST');
    await page.fill('[name=if_price]', 'first');
    await arrived;
    await page.evaluate(() => { document.querySelector('#preview .pair').dataset.before = ''; });
    await page.fill('[name=if_price]', '7');
    await page.waitForFunction(() => document.querySelector('#preview .pair:not([data-before])'));
    const last = await page.locator('#preview').innerHTML();
    const late = page.waitForResponse(response => response.request().method() === 'POST');
    release();
    await late;
    await page.evaluate(() => new Promise(resolve => setTimeout(resolve, 100)));
    assert(await page.locator('#preview').innerHTML() === last, 'a late answer replaced the last one');
    await context.close();
  });

  await check('without scripts the same numbers are shown', async () => {
    const numbers = page => page.evaluate(() => [...document.querySelectorAll('main [data-v]')].map(element => element.dataset.v).join());
    const [on, off] = [await open(), await open({ context: { javaScriptEnabled: false } })];
    for (const { page } of [on, off]) await logIn(page, gateway);
    // Nothing ends meanwhile, and what a page says of the present is left out: it moves between two looks at it.
    for (const path of ['', 'decisions', why, 'providers', 'models', 'keys', pages['one key'], 'accounts', 'ledger', 'calibration', 'targets', 'spend']) {
      const shown = [];
      for (const { page } of [on, off]) { await page.goto(url(path)); shown.push(await numbers(page)); }
      assert(shown[0] === shown[1], `${path}: ${shown[0]} with scripts, ${shown[1]} without`);
      assert(path === 'targets' || shown[0].length > 2, `${path} shows numbers`);
    }
    await on.context.close();
    await off.context.close();
  });

  await check('one click asks why not, and what would have won is tried in the playground', async () => {
    const { context, page, troubles } = await open();
    await logIn(page, gateway);
    await page.goto(url(why));
    assert(await page.locator('ol.journey li').count() >= 3, 'the way of the request');
    const stranger = page.locator('tr:not(.chosen) a.ask').first();
    const asked = (await stranger.getAttribute('aria-label')).match(/Why not (.*)\?/)[1];
    await stranger.click();
    await page.waitForURL('**why_not=**');
    assert(await page.inputValue('#why-not-name') === asked, 'the question stands in the field');
    assert((await page.locator('.answer .lead').textContent()).length > 20, 'an answer');
    const tried = page.locator('.answer a.ask');
    if (await tried.count() > 0) {
      await tried.first().click();
      await page.waitForURL('**/console/try?**');
      assert(await page.inputValue('[name=if_endpoint]') === asked, 'the endpoint is filled in');
      assert(await page.locator('#preview .pair section').count() === 2, 'both decisions are shown');
    }
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  await check('who asked, the way to the neighbours and the whole question are on the page of a decision, and a comparison is not cut off', async () => {
    for (const width of [1280, 1440]) {
      const { context, page, troubles } = await open({ context: { viewport: { width, height: 900 } } });
      await logIn(page, gateway);
      await page.goto(url(why));
      assert((await page.textContent('h1.reason')).trim().split(/\s+/).length <= 25, 'a first sentence of at most 25 words');
      assert(await page.locator('ul.said li').count() > 2, 'the reason as facts');
      assert(await page.locator('.strip a[href^="../decisions?key="]').count() === 1, 'who asked');
      assert(await page.locator('tr.chosen .tag:has-text("chosen")').count() === 1, 'the choice has its badge');
      const neighbour = page.locator('.crumbs a[rel=prev]');
      const here = page.url();
      await neighbour.click();
      await page.waitForURL(address => address.href !== here);
      assert(await page.locator('.crumbs a[rel=next]').count() === 1, 'the one before, and back');
      await page.goto(url(why));
      await page.click('.crumbs a[href*="try?"]');
      assert((await page.inputValue('[name=prompt_tokens]')).length > 0, 'the size of the question');
      await page.selectOption('[name=if_objective]', 'fastest');
      await page.waitForFunction(() => document.querySelectorAll('#preview .pair section').length === 2);
      const cut = await page.evaluate(() => [...document.querySelectorAll('#preview .scroll')].filter(box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1).map(box => `${box.scrollWidth} in ${box.clientWidth}`));
      assert(cut.length === 0, `cut off at ${width}: ${cut.join(', ')}`);
      assert(troubles.length === 0, troubles.join('; '));
      await context.close();
    }
  });

  await check('a column sorts: greatest, least, as they came, and what has no number stands last', async () => {
    const { context, page, troubles } = await open();
    await logIn(page, gateway);
    await page.goto(url('decisions'));
    // One cost that is not known, and one that does not apply.
    await page.evaluate(() => {
      const column = [...document.querySelectorAll('thead th')].find(head => head.textContent === 'Cost').cellIndex;
      const [first, second] = document.querySelectorAll('tr[data-row]');
      first.cells[column].replaceChildren(Object.assign(document.createElement('span'), { className: 'none', textContent: '–' }));
      second.cells[column].replaceChildren(Object.assign(document.createElement('span'), { className: 'unknown', textContent: 'unknown' }));
    });
    const shown = () => page.evaluate(() => {
      const column = [...document.querySelectorAll('thead th')].find(head => head.textContent === 'Cost').cellIndex;
      return [...document.querySelectorAll('tr[data-row]')].map(row => row.cells[column].querySelector('data')?.value ?? row.cells[column].textContent);
    });
    const came = await shown();
    const numbers = came.slice(2).map(Number);
    const head = page.locator('th button:has-text("Cost")');
    for (const [direction, least] of [['descending', false], ['ascending', true]]) {
      await head.press('Enter');
      const sorted = [...numbers].sort((one, other) => (least ? one - other : other - one));
      const values = await shown();
      assert(values.slice(0, -2).map(Number).join() === sorted.join(), `${direction}: ${values.join()}`);
      assert(values.slice(-2).join() === 'unknown,–', `${direction} ends with ${values.slice(-2).join()}`);
      assert(await page.locator('th[aria-sort]').getAttribute('aria-sort') === direction, 'aria-sort');
    }
    await head.press('Enter');
    assert((await shown()).join() === came.join() && await page.locator('th[aria-sort]').count() === 0, 'as they came');
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  // A font that is not installed is as wide as that behind it.
  const fonts = await (async () => {
    const { context, page } = await open();
    const width = font => page.evaluate(font => { const pen = document.createElement('canvas').getContext('2d'); pen.font = `80px ${font}`; return pen.measureText('Wim').width; }, font);
    const installed = [];
    for (const font of ['DejaVu Sans', 'Inter']) {
      if (await width(`"${font}", monospace`) !== await width('monospace')) installed.push(font); else console.log(`      ${font} is not installed`);
    }
    await context.close();
    return installed;
  })();

  for (const width of [1280, 1440, 1920, 2560]) await check(`on a screen of ${width} pixels no list is cut off, no tile runs over, and the header has one row`, async () => {
    const { context, page } = await open({ context: { viewport: { width, height: 900 } } });
    await logIn(page, gateway);
    for (const path of Object.values(pages)) {
      await page.goto(url(path));
      // Cards show their tables on demand. The numbers behind a chart may scroll in their box.
      await page.evaluate(() => document.querySelectorAll('main details:not(.twin)').forEach(details => { details.open = true; }));
      const header = await page.evaluate(() => document.querySelector('header.top').getBoundingClientRect().height);
      assert(header < 60, `${path}: the header is ${header} pixels high`);
      for (const font of fonts) {
        await page.evaluate(font => document.documentElement.style.setProperty('--sans', `"${font}"`), font);
        const over = await page.evaluate(() => [...document.querySelectorAll('.tiles > div')].filter(tile => tile.scrollWidth > tile.clientWidth + 1).map(tile => tile.textContent));
        assert(over.length === 0, `${path} in ${font}: ${over.join('; ')}`);
        assert(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} in ${font} scrolls sideways`);
        const cut = await page.evaluate(() => [...document.querySelectorAll('.scroll')].filter(box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1).map(box => `${box.querySelector('caption')?.textContent}: ${box.scrollWidth} in ${box.clientWidth}`));
        assert(cut.length === 0, `${path} in ${font}: ${cut.join('; ')}`);
      }
    }
    await context.close();
  });

  await check('a key is issued, copied, changed, disabled with a question, enabled again, rotated and deleted', async () => {
    const { context, page, troubles } = await open();
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: gateway.admin });
    await logIn(page, gateway);
    await page.goto(url('keys'));
    await page.click('text=New key');
    await page.fill('#name', 'browser <i>bot</i>');
    await page.fill('#limit', 'much');
    await page.press('#limit', 'Enter');
    assert((await page.textContent('#limit-fault')).includes('US dollars'), 'the fault beside the field');
    assert(await page.inputValue('#name') === 'browser <i>bot</i>', 'what was entered stays');
    troubles.splice(0, troubles.length, ...troubles.filter(text => !text.includes('status of 400')));
    await page.fill('#limit', '2.50');
    await page.click('text=Issue the key');
    const text = await page.textContent('.to-copy pre');
    assert(text.startsWith('sk-pointsman-v1-'), text);
    await page.click('.to-copy button');
    assert(await page.evaluate(() => navigator.clipboard.readText()) === text, 'the copy');
    const works = async key => (await fetch(`${gateway.api}/api/v1/key`, { headers: { authorization: `Bearer ${key}` } })).status;
    assert(await works(text) === 200, 'the key works');
    await page.click('text=To the key');
    await page.click('text=Change');
    await page.fill('#concurrency', '3');
    await page.click('text=Save');
    assert((await page.textContent('.done')).includes('in force'), 'the change');
    await page.click('main >> text=Disable');
    assert((await page.textContent('h1')).startsWith('Disable the key'), 'a question');
    await page.click('text=Cancel');
    assert(await works(text) === 200, 'cancelled');
    await page.click('main >> text=Disable');
    await page.keyboard.press('Tab');
    await page.click('text=Disable it');
    assert(await works(text) === 401, 'disabled');
    await page.click('text=Undo');
    assert(await works(text) === 200, 'undone');
    await page.click('main >> text=Rotate');
    await page.dblclick('text=Rotate it');
    const rotated = await page.textContent('.to-copy pre');
    assert(await works(rotated) === 200 && await works(text) === 401, 'rotated once, also with two presses');
    await page.click('text=To the key');
    await page.click('main >> text=Delete');
    await page.click('text=Delete it for good');
    await page.waitForURL('**/keys?done=deleted');
    assert(await works(rotated) === 401, 'deleted');
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  await check('without scripts a key is issued, disabled and deleted, and the further pages are reached', async () => {
    const { context, page } = await open({ context: { javaScriptEnabled: false } });
    await logIn(page, gateway);
    await page.goto(url('new/key'));
    await page.fill('#name', 'plain');
    await page.click('text=Issue the key');
    assert((await page.textContent('.to-copy pre')).startsWith('sk-pointsman-v1-'), 'the text of the key');
    await page.goto(url('keys/plain/disable'));
    await page.click('text=Disable it');
    assert((await page.textContent('.done')).includes('disabled'), 'disabled');
    await page.goto(url('keys/plain/delete'));
    await page.click('text=Delete it for good');
    assert((await page.textContent('.done')).includes('deleted'), 'deleted');
    await page.click('nav .more');
    await page.click('nav >> text=Targets');
    assert(page.url().endsWith('/targets'), page.url());
    await context.close();
  });

  await check('the further pages are behind one button, by pointer and by key', async () => {
    const { context, page, troubles } = await open();
    await logIn(page, gateway);
    assert(!await page.isVisible('nav >> text=Audit'), 'closed');
    await page.click('nav .more');
    await page.click('nav >> text=Audit');
    await page.waitForURL('**/console/audit');
    assert((await page.textContent('nav .more')).startsWith('Audit'), 'the button names the page');
    await page.keyboard.press('g');
    await page.keyboard.press('l');
    await page.waitForURL('**/console/ledger');
    await page.click('text=Verify the records');
    assert((await page.textContent('#verified')).includes('no faults'), 'verified');
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  await check('a cell filters the decisions, and the list is taken along as CSV', async () => {
    const { context, page, troubles } = await open();
    await logIn(page, gateway);
    await page.goto(url('decisions'));
    await page.locator('tr[data-row] td:nth-child(5) a').first().click();
    await page.waitForURL('**objective=**');
    assert(await page.locator('.tiles dd').count() >= 6, 'sums');
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('text=CSV')]);
    assert((await readFile(await download.path(), 'utf8')).startsWith('id,created_at'), 'the file');
    await page.click('nav.presets >> text=7 days');
    await page.waitForURL('**since=**');
    assert(await page.locator('tr[data-row]').count() > 0, 'rows of these days');
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  await check('a chart has round numbers beside it, says its numbers below the pointer, and leads to the decisions of a time', async () => {
    const { context, page, troubles } = await open();
    await logIn(page, gateway);
    const over = page.locator('#plot-calls .u-over');
    // The last minute but one, or the last one: traffic of these checks is in one of them.
    const busy = async () => {
      const { left, chart } = await page.locator('#plot-calls [data-plot]').evaluate(({ plot }) => {
        const n = plot.chart.series[0].y.findLastIndex(value => value > 0);
        return { left: plot.valToPos(plot.chart.x[n] + 20, 'x'), chart: { n, from: plot.chart.x[n], step: plot.chart.step, calls: plot.chart.series[0].y[n], at: plot.axes[1]._splits } };
      });
      return { position: { x: left, y: (await over.boundingBox()).height - 3 }, ...chart };
    };
    await over.waitFor();
    const { position, from, calls, at } = await busy();
    assert(at.length >= 3 && at.length <= 4 && at[0] === 0, `lines at ${at.join()}`);
    await over.hover({ position });
    assert((await page.textContent('#plot-calls .tip')).includes(`first attempt${calls}`), await page.textContent('#plot-calls .tip'));
    // A refresh leaves the crosshair where it is.
    await page.locator('#plot-calls .uplot').evaluate(element => { element.dataset.before = ''; });
    await page.locator('#overview').evaluate(element => new Promise(resolve => new MutationObserver(resolve).observe(element, { childList: true })));
    assert(await page.locator('#plot-calls .uplot[data-before]').count() === 1 && await page.isVisible('#plot-calls .tip'), 'the drawing stays');
    await over.click({ position: (await busy()).position });
    await page.waitForURL('**/console/decisions?since=**');
    const since = Number(new URL(page.url()).searchParams.get('since'));
    assert(since === from * 1000 || since === (from + 60) * 1000, `${since} and not ${from}`);
    assert(await page.locator('tr[data-row]').count() > 0, 'the decisions of this minute');
    await page.goto(url('?range=1h'));
    await over.waitFor();
    const box = await over.boundingBox();
    await page.mouse.move(box.x + box.width * .5, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width - 2, box.y + 60, { steps: 4 });
    await page.mouse.up();
    await page.waitForURL('**/console/decisions?since=**');
    const chosen = new URL(page.url()).searchParams;
    const minutes = (chosen.get('until') - chosen.get('since')) / 60_000;
    assert(minutes >= 29 && minutes <= 32, `${minutes} minutes`);
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  await check('charts have all ranges, follow theme and zone, and pieces of bars lead to their own', async () => {
    const { context, page, troubles } = await open({ context: { timezoneId: 'Asia/Kolkata' } });
    await logIn(page, gateway);
    for (const range of ['15m', '1h', '24h', '7d', '30d']) {
      await page.goto(url(`?range=${range}`));
      await page.locator('#plot-cost .u-over').waitFor();
      assert((await page.textContent('.ranges [aria-current]')).replace(' ', '').startsWith(range.slice(0, -1)), range);
      const drawn = await page.locator('#plot-calls canvas').evaluate(canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size);
      assert(drawn > 20, `${range}: ${drawn} shades`);
    }
    await page.goto(url('targets'));
    await page.goto(url('spend?by=model&range=7d'), { waitUntil: 'commit' });
    await page.waitForURL('**tz_offset_minutes=330**');
    const over = page.locator('#plot-spend .u-over');
    await over.waitFor();
    const title = async () => { await over.hover({ position: { x: 5, y: 20 } }); return page.textContent('#plot-spend .tip strong'); };
    const before = await title();
    await page.click('[data-theme-switch]');
    await page.click('[data-zone]');
    await page.waitForURL(there => !there.search.includes('tz_offset_minutes'));
    await over.waitFor();
    assert(before.endsWith('00:00') && (await title()).endsWith('00:00'), 'days begin at midnight of the zone that is shown');
    const position = await page.locator('#plot-spend [data-plot]').evaluate(({ plot }) => ({ x: plot.valToPos(plot.chart.x.at(-1) + 20_000, 'x'), y: plot.valToPos(plot.chart.series[0].y.at(-1) / 2, 'y') }));
    await over.click({ position });
    await page.waitForURL('**/console/decisions?model=**');
    assert(new URL(page.url()).searchParams.has('until'), page.url());
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  await check('without scripts there is no empty frame, and each slot of the table leads to its decisions', async () => {
    const { context, page } = await open({ context: { javaScriptEnabled: false } });
    await logIn(page, gateway);
    assert(!await page.isVisible('#plot-calls'), 'nothing is drawn');
    await page.click('text=The same as numbers');
    await page.locator('details th a').first().click();
    assert(page.url().includes('/decisions?since=') && await page.locator('tr[data-row]').count() > 0, page.url());
    await context.close();
  });

  await check('a gateway without calls shows how to call, and sends sample calls on a click', async () => {
    const fresh = await startGateway();
    const { context, page, troubles } = await open({ origin: fresh.admin });
    await logIn(page, fresh);
    const card = await page.textContent('.first-steps');
    assert(card.includes('curl http://127.0.0.1:') && card.includes('from openai import OpenAI') && card.includes('pointsman connect'), card);
    assert(await page.isVisible('.first-steps [data-copy]'), 'to copy');
    await page.click('text=sample calls');
    assert((await page.textContent('.done')).includes('on their way'), 'said');
    await page.waitForFunction(() => document.querySelector('#plot-calls .muted')?.textContent.startsWith('20 '), null, { timeout: 60_000 });
    await page.goto(`${fresh.admin}/console/decisions`);
    assert(await page.locator('tr[data-row]').count() === 20, 'twenty decisions');
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
    await fresh.stop();
  });

  await check('days of one\'s own choosing are those of the zone that is shown, and are downloaded', async () => {
    const today = new Date().toLocaleDateString('sv', { timeZone: 'Asia/Kolkata' });
    const { context, page, troubles } = await open({ context: { timezoneId: 'Asia/Kolkata' } });
    await logIn(page, gateway);
    await page.goto(url('spend'), { waitUntil: 'commit' });
    await page.waitForURL('**tz_offset_minutes=330**');
    assert(await page.inputValue('[name=to]') === today, 'the days of the preset are in the form');
    await page.fill('[name=from]', today);
    await page.click('main >> text=Show');
    await page.waitForURL(`**from=${today}**`);
    assert(await page.locator('.ranges [aria-current]').count() === 0 && (await page.textContent('.spend .sum')).includes('$'), 'no preset, and a sum');
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('text=Download as CSV')]);
    assert((await readFile(await download.path(), 'utf8')).includes(',requests,'), 'the file');
    await page.fill('[name=from]', '2020-01-01');
    await page.click('main >> text=Show');
    assert((await page.textContent('[role=alert]')).includes('92 days'), 'what is wrong');
    troubles.splice(0, troubles.length, ...troubles.filter(text => !text.includes('status of 400')));
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  await check('without scripts days of any zone are chosen', async () => {
    const { context, page } = await open({ context: { javaScriptEnabled: false } });
    await logIn(page, gateway);
    await page.goto(url('spend'));
    await page.fill('[name=from]', new Date(Date.now() - 2 * 86_400_000).toISOString().slice(0, 10));
    await page.selectOption('[name=tz_offset_minutes]', '345');
    await page.click('main >> text=Show');
    assert(page.url().includes('tz_offset_minutes=345') && (await page.textContent('main')).includes('midnight UTC+5:45'), page.url());
    assert((await page.textContent('.spend .sum')).includes('$'), 'a sum');
    await context.close();
  });

  await check('times of filters are entered in the zone that is shown, and sent in UTC', async () => {
    const { context, page } = await open({ context: { timezoneId: 'Asia/Kolkata' } });
    await logIn(page, gateway);
    await page.goto(url('decisions'));
    await page.fill('[name=since]', '2026-11-24T05:30');
    await page.click('form.filters >> text=Show');
    await page.waitForURL('**since=2026-11-24T00%3A00**');
    assert(await page.inputValue('[name=since]') === '2026-11-24T05:30', 'and shown again as entered');
    await page.click('[data-zone]');
    assert(await page.inputValue('[name=since]') === '2026-11-24T00:00', 'or in UTC');
    await context.close();
  });

  await check('a table that is wider than a phone has a shade at its edge, and scrolls with the keyboard', async () => {
    const { context, page } = await open({ context: { viewport: { width: 390, height: 800 } } });
    await logIn(page, gateway);
    for (const path of Object.values(pages)) {
      await page.goto(url(path));
      const mute = await page.evaluate(() => [...document.querySelectorAll('.scroll')].filter(box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
        .filter(box => box.tabIndex !== 0 || !getComputedStyle(box).backgroundAttachment.includes('local')).map(box => box.textContent.slice(0, 60)));
      assert(mute.length === 0, `${path}: ${mute.join('; ')}`);
    }
    await page.goto(url('models'));
    await page.locator('.scroll').first().focus();
    await page.keyboard.press('ArrowRight');
    await page.waitForFunction(() => document.activeElement.scrollLeft > 0);
    await context.close();
  });

  await check('the lines for a price are shown and copied, and a price that is none is named', async () => {
    const { context, page, troubles } = await open();
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: gateway.admin });
    await logIn(page, gateway);
    await page.goto(url('models'));
    await page.locator('a.ask:has-text("change")').nth(1).click();
    assert(await page.inputValue('[name=prompt]') === '0.1', 'the price in force');
    await page.fill('[name=prompt]', 'much');
    await page.click('text=Show the lines');
    assert((await page.textContent('#prompt-fault')).includes('0.15'), 'the fault beside the field');
    troubles.splice(0, troubles.length, ...troubles.filter(text => !text.includes('status of 400')));
    await page.fill('[name=prompt]', '0.125');
    await page.click('text=Show the lines');
    const text = await page.textContent('.to-copy pre');
    assert(text.includes('prompt = "0.125"') && text.includes('provider = "sim-thrift"'), text);
    await page.click('.to-copy button');
    assert(await page.evaluate(() => navigator.clipboard.readText()) === text, 'the copy');
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  await check('the configuration shows values and their sources', async () => {
    const { context, page, troubles } = await open();
    await logIn(page, gateway);
    await page.goto(url('config'));
    assert((await page.textContent('main')).includes('POINTSMAN__SIMULATION__MODE'), 'what is set');
    await page.fill('[name=q]', 'limits.max_n');
    await page.selectOption('[name=source]', 'default');
    await page.click('form.filters >> text=Show');
    await page.waitForURL('**source=default**');
    assert((await page.textContent('main')).includes('limits.max_n'), 'a default');
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  for (const colorScheme of ['light', 'dark']) await check(`the pages about the API look like the console, ${colorScheme}`, async () => {
    const { context, page, troubles } = await open({ context: { colorScheme } });
    await page.goto(url('login'));
    const look = () => page.evaluate(() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('a.brand')).color].join());
    const own = await look();
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      await page.goto(`${gateway.admin}/docs`);
      assert(await look() === own, `${await look()} and not ${own}`);
      await page.locator('summary').nth(3).click();
      assert(await page.evaluate(() => [...document.querySelectorAll('main :is(h1, p, li, summary)')].every(element => !element.textContent.includes('`'))), 'back-ticks are code');
      assert(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width}: scrolls sideways`);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert(serious.length === 0, serious.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)}`).join('\n'));
    }
    assert(troubles.length === 0, troubles.join('; '));
    await context.close();
  });

  await check('labels and fields of the filters stand on one line each', async () => {
    const { context, page } = await open();
    await logIn(page, gateway);
    for (const path of ['decisions', 'spend', 'refused', 'audit', 'models', 'config']) {
      await page.goto(url(path));
      const tops = await page.locator('.filters > label').evaluateAll(labels => labels.map(label => [label.offsetTop, ...[...label.children].map(child => Math.round(child.getBoundingClientRect().top - label.getBoundingClientRect().top))].join()));
      assert(new Set(tops.map(top => top.split(',').slice(1).join())).size === 1, `${path}: ${tops.join(' | ')}`);
    }
    await context.close();
  });

  for (const javaScriptEnabled of [true, false]) {
    await check(`what if compares the recorded calls ${javaScriptEnabled ? 'with' : 'without'} scripts`, async () => {
      const { context, page, troubles } = await open({ context: { javaScriptEnabled } });
      await logIn(page, gateway);
      await page.goto(url('what-if'));
      assert(await page.locator('input[type=range]').count() > 0 === javaScriptEnabled, 'sliders beside the fields');
      await page.fill('[name=latency]', '1');
      await page.fill('[name=cost]', '0');
      await page.click('text=Compare');
      for (let n = 0; n < 100 && !await page.locator('text=decisions identical').count(); n += 1) {
        await page.waitForTimeout(200);
        await page.goto(page.url());
      }
      assert(await page.locator('text=decisions identical').count() === 1, await page.locator('main').innerText());
      assert(await page.inputValue('[name=latency]') === '1', 'what was entered is still there');
      for (const link of await page.locator('table a').all()) assert((await link.getAttribute('href')).startsWith('decisions/gen-'), 'examples open the decision');
      assert(troubles.length === 0, troubles.join('; '));
      await context.close();
    });
  }

  await check('after log-out the back button shows the login page', async () => {
    const { context, page } = await open();
    await logIn(page, gateway);
    await page.goto(url('decisions'));
    await page.click('text=Log out');
    await page.waitForURL('**/console/login');
    await page.goBack();
    await page.waitForURL('**/console/login');
    assert(await page.locator('#key').count() === 1, page.url());
    await context.close();
  });

  await check('behind a proxy that puts a prefix before it, everything works', async () => {
    const target = new URL(gateway.admin);
    const proxy = createServer((incoming, outgoing) => {
      if (!incoming.url.startsWith('/a/b/')) { outgoing.writeHead(404).end(); return; }
      const forwarded = httpRequest({ host: target.hostname, port: target.port, method: incoming.method, path: incoming.url.slice(4), headers: incoming.headers }, answer => {
        outgoing.writeHead(answer.statusCode, answer.headers);
        answer.pipe(outgoing);
      });
      incoming.pipe(forwarded);
    });
    await new Promise(resolve => proxy.listen(0, '127.0.0.1', resolve));
    const origin = `http://127.0.0.1:${proxy.address().port}`;
    const { context, page, troubles } = await open({ origin });
    const wrong = [];
    page.on('response', response => { if (response.status() >= 400) wrong.push(response.url()); });
    await logIn(page, { admin: `${origin}/a/b` });
    await page.click('nav >> text=Decisions');
    await page.waitForURL('**/a/b/console/decisions');
    await page.click('td a >> nth=0');
    await page.waitForURL('**/a/b/console/decisions/gen-*');
    await page.click('nav >> text=Providers');
    await page.waitForURL('**/a/b/console/providers');
    await page.click('text=Log out');
    await page.waitForURL('**/a/b/console/login');
    assert(wrong.length === 0 && troubles.length === 0, [...wrong, ...troubles].join('; '));
    await context.close();
    proxy.close();
    proxy.closeAllConnections();
  });
} finally {
  await browser.close();
  await gateway.stop();
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
