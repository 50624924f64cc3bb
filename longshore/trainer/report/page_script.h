// The script of the product's pages: it reads out the values of charts, and keeps a page that a run
// serves up to date. Without it a page shows all the same.
#pragma once

namespace longshore::trainer {

inline constexpr const char* kPageScript = R"js(
'use strict';
// The values at a place of a chart: pointer and arrow keys move it.
function readOut(figure) {
  const data = JSON.parse(figure.querySelector('script').textContent);
  const canvas = figure.querySelector('.canvas'), hair = figure.querySelector('.hair');
  const out = figure.querySelector('.reading');
  const xs = [...new Set(data.series.flatMap(s => s.x))].sort((a, b) => a - b);
  const low = xs[0], high = xs[xs.length - 1];
  let at = -1;
  const nearest = (list, x) => {
    let a = 0, b = list.length - 1;
    while (b - a > 1) { const m = (a + b) >> 1; if (list[m] <= x) a = m; else b = m; }
    return Math.abs(list[a] - x) <= Math.abs(list[b] - x) ? a : b;
  };
  const show = i => {
    at = Math.max(0, Math.min(xs.length - 1, i));
    const x = xs[at];
    hair.style.left = (high > low ? 100 * (x - low) / (high - low) : 50) + '%';
    hair.style.display = 'block';
    const said = data.series.filter(s => s.x.length).map(s => {
      const j = nearest(s.x, x);
      const where = s.x[j] === x ? '' : ' (' + data.x + ' ' + s.x[j] + ')';
      return (data.series.length > 1 ? s.name + ' ' : '') + s.y[j] + where;
    });
    out.textContent = data.x + ' ' + x + ': ' + said.join(', ');
  };
  const hide = () => { hair.style.display = 'none'; out.innerHTML = '&nbsp;'; at = -1; };
  canvas.addEventListener('pointermove', e => {
    const box = canvas.getBoundingClientRect();
    show(nearest(xs, low + (high - low) * (e.clientX - box.left) / box.width));
  });
  canvas.addEventListener('pointerleave', hide);
  canvas.addEventListener('blur', hide);
  canvas.addEventListener('focus', () => { if (at < 0) show(xs.length - 1); });
  canvas.addEventListener('keydown', e => {
    const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9}[e.key];
    if (step === undefined) return;
    e.preventDefault();
    show(at + step);
  });
}
const prepare = () => document.querySelectorAll('.plot').forEach(readOut);
prepare();
// A page that a run serves; one that lies in a folder is loaded anew by its reader.
if (location.protocol.startsWith('http') && document.querySelector('[data-live]')) {
  const open = () => [...document.querySelectorAll('details')].map(d => d.open);
  let tag = null;
  const renew = async () => {
    try {
      const answer = await fetch(location.href, {cache: 'no-store', headers: tag ? {'If-None-Match': tag} : {}});
      if (answer.status === 200) {
        tag = answer.headers.get('ETag');
        const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const was = open(), focused = document.activeElement.closest('.plot');
        const place = focused && [...document.querySelectorAll('.plot')].indexOf(focused);
        document.querySelector('main').replaceWith(page.querySelector('main'));
        document.querySelectorAll('details').forEach((d, i) => { d.open = was[i] || false; });
        prepare();
        if (focused) document.querySelectorAll('.plot .canvas')[place]?.focus({preventScroll: true});
        if (!document.querySelector('[data-live]')) return;
      }
      document.querySelector('[data-live]').textContent = '';
    } catch {
      document.querySelector('[data-live]').textContent = ' The run does not answer: it has ended, or is out of reach.';
    }
    setTimeout(renew, 3000);
  };
  setTimeout(renew, 3000);
}
)js";

}  // namespace longshore::trainer
