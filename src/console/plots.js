// Draws boxes with data-plot with uPlot: axes, a crosshair with numbers, and the way to what a slot counts. Comes with uPlot,
// on pages with charts.
'use strict';
window.drawPlot = (() => {
  const root = document.documentElement;
  const colour = name => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const font = size => `${size}px ${colour('sans')}`;

  const short = (value, digits = 3) => Number(value.toPrecision(digits)).toLocaleString('en', { maximumFractionDigits: 15 });
  const written = {
    '': value => short(value, 15),
    $: value => `$${value >= 1000 ? Math.round(value).toLocaleString('en') : short(value)}`,
    ms: value => (value === 0 ? '0' : value < 999.5 ? `${short(value)} ms` : `${short(value / 1000)} s`),
    '%': value => `${short(value * 100)} %`,
  };

  // At most three round numbers above the lowest one.
  function rounds(high, isWhole) {
    const rough = (high || 1) / 3, power = 10 ** Math.floor(Math.log10(rough));
    const least = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map(factor => factor * power).find(step => step >= rough * .9999);
    const step = isWhole ? Math.max(1, Math.ceil(least)) : least;
    return Array.from({ length: Math.ceil((high || 1) / step - 1e-6) + 1 }, (_, n) => n * step);
  }
  // The numbers beside the axis; its ends are the first and the last one.
  function scale({ kind, unit, bound, series }) {
    if (kind === 'points') return bound > .75 ? [0, .25, .5, .75, 1] : rounds(bound);
    const values = series.flatMap(({ y }) => y).filter(value => value !== null);
    if (kind === 'bars') return rounds(Math.max(0, ...sums(series).at(-1)), unit === '');
    if (unit !== '%') return rounds(Math.max(0, ...values));
    const low = [.98, .9, .8, .5, 0].find(low => low < Math.min(bound, ...values)) ?? 0;
    return [low, (low + 1) / 2, 1];
  }

  // Each series on top of those before it.
  function sums(series) {
    let below = series[0].y.map(() => 0);
    return series.map(({ y }) => { below = y.map((value, n) => below[n] + (value ?? 0)); return below; });
  }
  // The highest sum is drawn first, and the others over it.
  // Lines go through the middles of their slots.
  const columns = chart => [chart.kind === 'lines' ? chart.x.map(x => x + chart.step / 2) : chart.x, ...(chart.kind === 'bars' ? sums(chart.series).reverse() : chart.series.map(({ y }) => y))];

  // Seconds as text. `offset`: minutes of the zone; null for that of the browser.
  function moment(seconds, offset) {
    const at = new Date(seconds * 1000);
    return new Date(+at + (offset ?? -at.getTimezoneOffset()) * 60000).toISOString().slice(0, 16).replace('T', ' ');
  }
  function tick(seconds, offset, apart) {
    const text = moment(seconds, offset);
    return apart >= 86400 || text.endsWith('00:00') ? text.slice(5, 10) : text.slice(11);
  }

  // Over the bars and lines: what is not over yet, marks, a bound, the diagonal and the ranges of points.
  function mark(u) {
    const { ctx, bbox: { left, top, width, height }, chart } = u, ratio = uPlot.pxRatio;
    const at = (value, axis) => Math.round(u.valToPos(value, axis, true)) + .5;
    const stroke = (points, tone, dash = []) => {
      ctx.beginPath();
      ctx.strokeStyle = colour(tone);
      ctx.setLineDash(dash.map(length => length * ratio));
      points.forEach(([x, y], n) => (n ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
      ctx.stroke();
    };
    ctx.save();
    ctx.lineWidth = ratio;
    if (chart.running) {
      const from = u.valToPos(chart.x.at(-1), 'x', true);
      ctx.globalAlpha = .6;
      ctx.fillStyle = colour('card');
      ctx.fillRect(from, top, left + width - from, height);
      ctx.globalAlpha = 1;
      stroke([[Math.round(from) + .5, top], [Math.round(from) + .5, top + height]], 'line-strong', [2, 3]);
    }
    ctx.font = font(10 * ratio);
    ctx.textBaseline = 'top';
    ctx.textAlign = 'left';
    let free = -1;
    for (const [seconds, what] of chart.marks) {
      const x = at(seconds, 'x'), isRight = x > left + width - 60 * ratio;
      stroke([[x, top], [x, top + height]], 'faint', [3, 3]);
      if (x < free) continue;
      // On a ground of its own, because it may stand over a bar.
      const wide = ctx.measureText(what).width + 6 * ratio, from = isRight ? x - wide : x + .5;
      ctx.fillStyle = colour('card');
      ctx.fillRect(from, top + 2 * ratio, wide, 12 * ratio);
      ctx.fillStyle = colour('soft');
      ctx.fillText(what, from + 3 * ratio, top + 3 * ratio);
      free = x + 50 * ratio;
    }
    if (chart.kind === 'lines' && chart.bound !== null) {
      const y = at(chart.bound, 'y');
      stroke([[left, y], [left + width, y]], 'bad', [5, 4]);
    }
    if (chart.kind === 'points') {
      stroke([[left, top + height], [left + width, top]], 'line-strong', [5, 4]);
      (chart.series[0].ranges ?? []).forEach((range, n) => {
        if (range) stroke([[at(chart.x[n], 'x'), at(range[0], 'y')], [at(chart.x[n], 'x'), at(Math.min(range[1], scale(chart).at(-1)), 'y')]], chart.series[0].tone);
      });
    }
    ctx.restore();
  }

  // The slot that a place across lies in.
  const slotAt = (chart, value) => Math.max(0, chart.x.findLastIndex(x => x <= value));
  // The point below the pointer.
  function nearest(u, chart) {
    const away = n => Math.hypot(u.valToPos(chart.x[n], 'x') - u.cursor.left, u.valToPos(chart.series.map(({ y }) => y[n]).find(y => y !== null), 'y') - u.cursor.top);
    return chart.x.map((_, n) => n).sort((one, other) => away(one) - away(other))[0];
  }
  const add = (parent, tag, text, name = '') => parent.appendChild(Object.assign(document.createElement(tag), { textContent: text, className: name }));
  function tell(u) {
    const { chart, tip, cursor: { left, top } } = u;
    tip.hidden = left < 0;
    if (tip.hidden) return;
    const isPoints = chart.kind === 'points', write = written[chart.unit];
    const n = isPoints ? nearest(u, chart) : slotAt(chart, u.posToVal(left, 'x'));
    tip.textContent = '';
    const title = isPoints ? chart.series[0].names[n] : moment(chart.x[n], u.offset);
    add(tip, 'strong', chart.running && n === chart.x.length - 1 ? `${title}, not over yet` : title);
    const row = (name, value, tone) => {
      const line = add(tip, 'p', '');
      if (tone) add(line, 'i', '').style.background = colour(tone);
      add(line, 'span', name);
      add(line, 'b', value);
    };
    if (isPoints) row('predicted', write(chart.x[n]));
    let sum = 0, shown = 0;
    // As they stand on each other.
    for (const { name, tone, y } of chart.kind === 'bars' ? [...chart.series].reverse() : chart.series) {
      if (y[n] === null || (chart.kind === 'bars' && y[n] === 0 && chart.series.length > 3)) continue;
      row(isPoints ? 'seen' : name, write(y[n]), tone);
      sum += y[n];
      shown += 1;
    }
    if (chart.kind === 'bars' && shown > 1) row('together', write(sum));
    for (const [seconds, what] of chart.marks) if (seconds >= chart.x[n] && seconds < chart.x[n] + chart.step) row(what, moment(seconds, u.offset).slice(11));
    const x = left < u.over.clientWidth / 2 ? left + 14 : left - 14 - tip.offsetWidth;
    tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(Math.min(top, Math.max(0, u.over.clientHeight - tip.offsetHeight)))}px)`;
  }

  // To what the slots from one to another count: a piece of a bar to its own, if it has a filter.
  function address({ chart }, first, last, filter) {
    const times = chart.link.startsWith('refused') ? '' : `since=${chart.x[first] * 1000}&until=${(chart.x[last] + chart.step) * 1000}`;
    const query = [filter, times].filter(Boolean).join('&');
    return chart.link + (query && (chart.link.includes('?') ? '&' : '?')) + query;
  }
  function follow(u, event, first, last = first, filter = '') {
    const there = address(u, first, last, filter);
    if (event?.ctrlKey || event?.metaKey) open(there, '_blank', 'noopener'); else location.href = there;
  }
  function click(u, event) {
    const { chart, cursor: { left, top } } = u;
    // A tap shows the numbers. The table has the links.
    if (u.dragged || event.pointerType === 'touch' || left < 0) { u.dragged = false; return; }
    const idx = slotAt(chart, u.posToVal(left, 'x')), height = u.posToVal(top, 'y');
    const piece = chart.kind === 'bars' ? chart.series[sums(chart.series).findIndex(sum => sum[idx] >= height)] : chart.series.length === 1 ? chart.series[0] : null;
    follow(u, event, idx, idx, piece?.filter ?? '');
  }
  function dragged(u) {
    if (u.select.width < 6) return;
    u.dragged = true;
    const [first, last] = [u.select.left, u.select.left + u.select.width].map(left => slotAt(u.chart, u.posToVal(left, 'x')));
    follow(u, null, first, last);
  }

  // What must be the same for new numbers to go into the same drawing.
  const look = (chart, offset) => JSON.stringify([chart.kind, chart.unit, chart.step, chart.series.map(({ name, tone }) => [name, tone]), offset, colour('ink')]);

  return function draw(box, isLocal) {
    const chart = JSON.parse(box.dataset.plot), offset = chart.offset ?? (isLocal ? null : 0);
    if (box.plot?.look === look(chart, offset)) {
      box.plot.chart = chart;
      box.plot.setData(columns(chart));
      return;
    }
    box.plot?.destroy();
    const { kind, step, unit, link } = chart, isPoints = kind === 'points', write = written[unit];
    const axis = { stroke: colour('faint'), font: font(11), ticks: { show: false }, grid: { stroke: colour('line'), width: 1 } };
    const line = ({ tone, y }) => ({
      bars: { fill: colour(tone), width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [.8, 56], align: 1 }) },
      lines: { stroke: colour(tone), width: 2, points: { show: y.filter(value => value !== null).length < 40, size: 6, fill: colour(tone) } },
      points: { stroke: colour(tone), paths: () => null, points: { show: true, size: 9, fill: colour(tone) } },
    }[kind]);
    const series = kind === 'bars' ? [...chart.series].reverse() : chart.series;
    const ready = u => {
      Object.assign(u, { chart, offset, look: look(chart, offset), tip: add(u.over, 'div', '', 'tip') });
      u.tip.hidden = true;
      if (!link) return;
      u.over.style.cursor = 'pointer';
      u.over.addEventListener('click', event => click(u, event));
    };
    const now = () => box.plot?.chart ?? chart, splits = () => scale(now());
    const height = () => [splits()[0], splits().at(-1)];
    box.plot = null;
    box.plot = new uPlot({
      width: box.clientWidth,
      height: box.clientHeight,
      padding: [12, 20, 0, 0],
      legend: { show: false },
      tzDate: at => { const date = new Date(at * 1000); return new Date(+date + (offset === null ? 0 : (offset + date.getTimezoneOffset()) * 60000)); },
      scales: { x: { time: !isPoints, range: isPoints ? height : () => [now().x[0], now().x.at(-1) + step] }, y: { range: height } },
      axes: [
        { ...axis, size: 24, gap: 6, ...(isPoints ? { splits, values: (_, at) => at.map(write) } : { space: 60, grid: { show: false }, ...(step >= 86400 ? { incrs: [1, 2, 7, 14].map(days => days * 86400) } : {}), values: (_, at, __, ___, apart) => at.map(seconds => tick(seconds, offset, apart)) }) },
        { ...axis, gap: 6, size: (_, texts) => Math.max(34, ...(texts ?? []).map(text => text.length * 6.4 + 12)), splits, values: (_, at) => at.map(write) },
      ],
      cursor: { y: isPoints, dataIdx: (u, _, near, at) => (isPoints ? near : slotAt(now(), at)), points: { show: kind === 'lines' }, drag: { x: Boolean(link), y: false, setScale: false, dist: 5 } },
      series: [{}, ...series.map(line)],
      hooks: { init: [ready], draw: [mark], setCursor: [tell], setSelect: [dragged] },
    }, columns(chart), box);
    box.sized ??= new ResizeObserver(() => box.plot.setSize({ width: box.clientWidth, height: box.clientHeight }));
    box.sized.observe(box);
  };
})();
