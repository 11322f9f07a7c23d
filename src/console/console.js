// Adds to pages that work without it: theme, time zone, keys, copying, sorting and live parts. Keeps theme and zone in
// localStorage, and nothing else.
'use strict';
(() => {
  const root = document.documentElement;
  const recall = name => { try { return localStorage.getItem(name); } catch { return null; } };
  const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* private mode */ } };

  // Before the page is drawn.
  root.classList.add('js');
  const theme = recall('theme');
  if (theme === 'light' || theme === 'dark') root.classList.add(theme);

  const isDark = () => root.classList.contains('dark') ||
    (!root.classList.contains('light') && matchMedia('(prefers-color-scheme: dark)').matches);

  function themes() {
    const button = document.querySelector('[data-theme-switch]');
    const label = () => { button.textContent = isDark() ? 'Light' : 'Dark'; };
    button.hidden = false;
    label();
    button.addEventListener('click', () => {
      const next = isDark() ? 'light' : 'dark';
      root.classList.remove('light', 'dark');
      root.classList.add(next);
      keep('theme', next);
      label();
      plotting(document);
    });
  }

  // Times arrive in UTC, and are shown in the zone of the browser until the switch says otherwise.
  const pad = number => String(number).padStart(2, '0');
  function showTimes(within, isLocal) {
    for (const element of within.querySelectorAll('time[datetime]')) {
      element.dataset.utc ??= element.textContent;
      const at = new Date(element.dateTime);
      if (!isLocal || Number.isNaN(at.getTime())) { element.textContent = element.dataset.utc; continue; }
      const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
      const date = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
      const kind = element.classList;
      element.textContent = kind.contains('clock') ? clock : `${kind.contains('short') ? date.slice(5) : date} ${clock}`;
    }
    for (const element of within.querySelectorAll('[data-zone-name]')) element.textContent = isLocal ? 'local' : 'UTC';
  }
  const isLocal = () => recall('zone') !== 'utc';
  function zones() {
    const button = document.querySelector('[data-zone]');
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone || 'local';
    const show = () => { button.textContent = isLocal() ? own : 'UTC'; showTimes(document, isLocal()); };
    button.hidden = false;
    show();
    days(false);
    if (isLocal()) fields(document, toLocal);
    button.addEventListener('click', () => {
      keep('zone', isLocal() ? 'utc' : 'local');
      show();
      plotting(document);
      fields(document, isLocal() ? toLocal : toUtc);
      days(true);
    });
    document.addEventListener('formdata', event => {
      for (const field of isLocal() ? event.target.querySelectorAll('[data-utc]') : []) event.formData.set(field.name, toUtc(field.value));
    });
  }
  // Fields with data-utc hold a time as browsers write one, and are sent in UTC.
  const fields = (within, write) => { for (const field of within.querySelectorAll('[data-utc]')) field.value = write(field.value); };
  const toUtc = value => value && new Date(value).toISOString().slice(0, 16);
  const toLocal = value => {
    const at = new Date(`${value}Z`);
    return value && new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
  };

  // Days of sums begin at midnight of the zone that is shown, unless the address has another one. Without a script they are those of UTC.
  function days(isAsked) {
    if (!document.querySelector('[data-days]')) return;
    const there = new URL(location.href), name = 'tz_offset_minutes';
    const minutes = isLocal() ? -Math.round(new Date().getTimezoneOffset() / 15) * 15 : 0;
    if (!isAsked && (there.searchParams.has(name) || !minutes)) return;
    if (minutes) there.searchParams.set(name, minutes); else there.searchParams.delete(name);
    if (there.href !== location.href) location.replace(there);
  }

  function copying(within) {
    for (const button of within.querySelectorAll('[data-copy]')) {
      button.hidden = !navigator.clipboard;
      const label = button.textContent;
      button.addEventListener('click', async () => {
        const text = button.dataset.copy.replaceAll('$POINTSMAN_ADMIN_URL', location.origin + prefix());
        try { await navigator.clipboard.writeText(text); button.textContent = 'Copied'; } catch { button.textContent = 'Copying is not allowed here'; }
        setTimeout(() => { button.textContent = label; }, 1500);
      });
    }
  }
  // What a proxy put before /console/.
  const prefix = () => new URL(`${document.body.dataset.root}../`, location.href).pathname.replace(/\/$/, '');

  // Rows: j and k move, Enter opens the first link of the row.
  let at = -1;
  const rows = () => [...document.querySelectorAll('tr[data-row]')];
  function move(step) {
    const all = rows();
    if (!all.length) return;
    all[at]?.classList.remove('at');
    at = Math.min(Math.max(at + step, 0), all.length - 1);
    all[at].classList.add('at');
    all[at].querySelector('a')?.focus({ preventScroll: true });
    all[at].scrollIntoView({ block: 'nearest' });
  }

  function keys() {
    let isGoing = false;
    const dialog = document.getElementById('keys');
    document.addEventListener('keydown', event => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.matches('input:not([type=checkbox]), select, textarea')) {
        if (event.key === 'Escape') event.target.blur();
        return;
      }
      if (isGoing) {
        isGoing = false;
        const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
        if (link) { event.preventDefault(); link.click(); }
        return;
      }
      const actions = {
        g: () => { isGoing = true; setTimeout(() => { isGoing = false; }, 1500); },
        j: () => move(1),
        k: () => move(-1),
        '/': () => document.querySelector('form.filters :is(input:not([type=hidden]), select), [data-filter]')?.focus(),
        '?': () => dialog.open || dialog.showModal(),
      };
      const action = actions[event.key];
      if (action && !dialog.open) { event.preventDefault(); action(); }
    });
  }

  // A column with data-sort sorts the rows of the page: the greatest first, then the least, then as they came. Rows without a
  // number stand last: those of which it is unknown, then those that have none.
  let order = null;
  const rank = cell => {
    const number = cell.querySelector('data');
    return number ? [0, Number(number.value)] : [cell.querySelector('.unknown') ? 1 : 2, 0];
  };
  function sorting(within) {
    for (const head of within.querySelectorAll('th[data-sort]')) {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'link';
      button.append(...head.childNodes);
      head.append(button);
      const column = head.cellIndex;
      button.addEventListener('click', () => {
        const before = order?.column === column ? order.direction : null;
        order = before === 'ascending' ? null : { column, direction: before === 'descending' ? 'ascending' : 'descending' };
        sort(head.closest('table'));
      });
    }
    for (const table of within.querySelectorAll('table:has(th[data-sort])')) sort(table);
  }
  function sort(table) {
    const body = table.tBodies[0];
    const all = [...body.rows];
    all.forEach((row, n) => { row.dataset.came ??= n; });
    const sign = order?.direction === 'ascending' ? 1 : -1;
    all.sort((one, other) => {
      if (order) {
        const [[kind, value], [otherKind, otherValue]] = [one, other].map(row => rank(row.cells[order.column]));
        const apart = kind - otherKind || sign * (value - otherValue);
        if (apart) return apart;
      }
      return one.dataset.came - other.dataset.came;
    });
    body.append(...all);
    for (const head of table.querySelectorAll('th[data-sort]')) {
      if (order?.column === head.cellIndex) head.setAttribute('aria-sort', order.direction); else head.removeAttribute('aria-sort');
    }
    at = -1;
  }

  // Parts with an id and data-refresh are fetched again every so many seconds, while the page is seen and not in use.
  // A mark beside the title says so, and pauses it.
  function refreshing() {
    const parts = document.querySelectorAll('[id][data-refresh]');
    if (!parts.length) return;
    const mark = Object.assign(document.createElement('button'), { type: 'button', className: 'ghost live', textContent: 'Live', title: 'Pause, or go on' });
    mark.addEventListener('click', () => { mark.textContent = mark.classList.toggle('paused') ? 'Paused' : 'Live'; });
    document.querySelector('h1').after(mark);
    for (const part of parts) {
      const again = () => setTimeout(() => refresh(part.id, again), Number(part.dataset.refresh) * 1000);
      again();
    }
  }
  async function refresh(id, again) {
    const old = document.getElementById(id);
    if (!old) return;
    if (!document.hidden && !document.querySelector('.live.paused') && !old.contains(document.activeElement) && !document.querySelector('dialog[open]')) {
      try {
        const response = await fetch(location.href, { credentials: 'same-origin' });
        if (response.redirected) { location.reload(); return; }
        if (response.ok) {
          const next = new DOMParser().parseFromString(await response.text(), 'text/html').getElementById(id);
          if (next) {
            const opened = [...old.querySelectorAll('details')].map(details => details.open);
            keepPlots(old, next);
            old.replaceChildren(...next.childNodes);
            [...old.querySelectorAll('details')].forEach((details, n) => { details.open = opened[n] ?? details.open; });
            showTimes(old, isLocal());
            sorting(old);
            copying(old);
            plotting(old);
            at = -1;
          }
        }
        seen(response.ok);
      } catch { seen(false); }
    }
    again();
  }

  // A page that is no longer refreshed says since when, so that nobody takes it for the present.
  let last = new Date();
  function seen(isFresh) {
    const line = document.getElementById('stale');
    if (isFresh) last = new Date();
    else line.textContent = `This page could not be refreshed. It shows how things were at ${pad(last.getHours())}:${pad(last.getMinutes())}:${pad(last.getSeconds())}, local time.`;
    line.hidden = isFresh;
  }

  // On a narrow screen the list of pages scrolls: the current one is in view.
  const showCurrent = () => document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });

  // A form with data-live is previewed after each pause of typing: the parts it names are replaced. Its button
  // data-send-button sends what was entered and shows the answer as it comes. A field with data-slider gets a slider.
  function playing() {
    for (const field of document.querySelectorAll('[data-slider]')) slider(field);
    for (const form of document.querySelectorAll('form[data-live]')) {
      let pause, latest = 0;
      const entered = () => ({ method: 'POST', credentials: 'same-origin', body: new URLSearchParams(new FormData(form)) });
      const preview = async () => {
        const mine = ++latest;
        try {
          const response = await fetch(form.action, entered());
          if (response.redirected) { location.reload(); return; }
          const page = new DOMParser().parseFromString(await response.text(), 'text/html');
          for (const id of mine === latest ? form.dataset.live.split(' ') : []) {
            const next = page.getElementById(id);
            if (next) document.getElementById(id).replaceChildren(...next.childNodes);
          }
        } catch { /* the gateway is away: the next time */ }
      };
      // Text is typed letter by letter; numbers and choices are settled at once.
      const wait = field => (field.matches('textarea, [name=model]') ? 200 : 20);
      form.addEventListener('input', event => { clearTimeout(pause); pause = setTimeout(preview, wait(event.target)); });
      form.querySelector('[data-send-button]')?.addEventListener('click', event => {
        event.preventDefault();
        send(new URL(form.dataset.send, location.href), entered(), event.target);
      });
    }
  }
  // Moving the slider fills the field in; typing into the field moves the slider. An empty field stays empty until then.
  function slider(field) {
    const range = document.createElement('input');
    range.type = 'range';
    [range.min, range.max, range.step] = field.dataset.slider.split(' ');
    range.value = field.value || field.placeholder;
    range.setAttribute('aria-label', `${field.parentElement.firstChild.textContent.trim()}, slider`);
    range.addEventListener('input', () => { field.value = range.value; });
    field.addEventListener('input', () => { range.value = field.value || field.placeholder; });
    field.after(range);
  }
  async function send(url, entered, button) {
    const [part, facts, text] = ['#sent', '[data-sent-facts]', '[data-sent-text]'].map(name => document.querySelector(name));
    part.hidden = false;
    button.disabled = true;
    facts.textContent = 'Waiting …';
    text.textContent = '';
    const began = performance.now();
    let first = null;
    let served = '';
    const show = usage => {
      const seconds = (performance.now() - began) / 1000;
      const parts = [served, first === null ? null : `first token ${(first / 1000).toFixed(2)} s`, `${seconds.toFixed(1)} s`];
      if (usage) parts.push(`${usage.completion_tokens} tokens`, `${(usage.completion_tokens / Math.max(seconds - (first ?? 0) / 1000, .001)).toFixed(0)} tokens/s`, `$${usage.cost}`);
      facts.textContent = parts.filter(Boolean).join(' · ');
    };
    try {
      const response = await fetch(url, entered);
      if (!response.ok || !response.body) {
        const page = new DOMParser().parseFromString(await response.text(), 'text/html');
        facts.textContent = page.querySelector('main')?.textContent.trim() || `Refused with ${response.status}.`;
        return;
      }
      served = [response.headers.get('x-route-model'), response.headers.get('x-route-provider')].filter(Boolean).join(' on ');
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        const lines = (rest + read.value).split('\n');
        rest = lines.pop();
        for (const line of lines) {
          if (!line.startsWith('data: {')) continue;
          const chunk = JSON.parse(line.slice(6));
          const more = chunk.choices?.[0]?.delta?.content;
          if (more) { first ??= performance.now() - began; text.append(more); }
          if (chunk.error) text.append(`\n${chunk.error.message}`);
          show(chunk.usage);
        }
      }
    } catch (error) {
      facts.textContent = `The answer broke off: ${error.message}`;
    } finally {
      button.disabled = false;
    }
  }

  // Charts: boxes with data-plot, for which uPlot is fetched. A box has its drawing as the member plot.
  const here = document.currentScript.src;
  let library;
  function plotting(within) {
    const boxes = [...within.querySelectorAll('[data-plot]')];
    if (!boxes.length) return;
    library ??= new Promise((resolve, reject) => {
      document.head.append(Object.assign(document.createElement('script'), { src: new URL('charts.js', here), onload: resolve, onerror: reject }));
    });
    library.then(() => boxes.forEach(box => drawPlot(box, isLocal())), () => { library = null; });
  }
  // A drawing stays when its part is fetched again, so that the crosshair does not vanish below the pointer.
  function keepPlots(old, next) {
    for (const fresh of next.querySelectorAll('.plot [data-plot]')) {
      const box = old.querySelector(`#${CSS.escape(fresh.parentElement.id)} [data-plot]`);
      if (!box?.plot) continue;
      for (const name of ['data-plot', 'aria-label']) box.setAttribute(name, fresh.getAttribute(name));
      fresh.replaceWith(box);
    }
  }

  // A form that changes something is sent once: a second press would repeat it.
  function sendingOnce() {
    for (const form of document.querySelectorAll('form[method=post]:not([data-live])')) {
      form.addEventListener('submit', event => {
        if (form.dataset.sent) event.preventDefault();
        form.dataset.sent = 'true';
      });
    }
    // The page may come back with the back button.
    addEventListener('pageshow', () => { for (const form of document.querySelectorAll('form[data-sent]')) delete form.dataset.sent; });
  }

  // A link to a card opens its details.
  function opening() {
    const open = () => document.getElementById(location.hash.slice(1))?.closest('article')?.querySelector('details')?.setAttribute('open', '');
    addEventListener('hashchange', open);
    open();
  }

  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => plotting(document));
  document.addEventListener('DOMContentLoaded', () => { showCurrent(); themes(); zones(); copying(document); keys(); sorting(document); refreshing(); playing(); sendingOnce(); opening(); plotting(document); });
})();
