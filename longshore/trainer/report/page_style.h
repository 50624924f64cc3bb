// The style of the product's pages, with light and dark colours, for screens of any width, but for
// what palette.h fills. Colours are told apart by those who see few of them: series after Okabe and
// Ito.
#pragma once

namespace longshore::trainer {

inline constexpr const char* kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #fff; --text: #1d2430; --faint: #5f6b7c; --grid: #e4e7ec; --card: #f7f8fa;
  --focus: #0072b2;
  --bar: #3b6fb6; --baseline: #98a2b3; --faster: #2e9e6b; --slower: #c43d3d; --marker: #e08a00;
  --series-0: #0072b2; --series-1: #d55e00; --series-2: #009e73; --series-3: #b0578d;
  --series-4: #a07800; --series-5: #3a9bd6; --series-6: #6a51a3; --series-7: #555555;
  --waiting: #c9ced6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181f; --text: #e6e9ef; --faint: #9aa5b5; --grid: #2f3642; --card: #1c222c;
    --focus: #5ab4e5;
    --bar: #6b9fe8; --baseline: #667085; --faster: #4cc38a; --slower: #ef7676; --marker: #ffb340;
    --series-0: #4fa3dd; --series-1: #f08a4b; --series-2: #2cc295; --series-3: #dd94c0;
    --series-4: #d9b44a; --series-5: #7cc7f2; --series-6: #a994e0; --series-7: #b0b0b0;
    --waiting: #3d4655;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 76rem;
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  background: var(--page); color: var(--text); font-variant-numeric: tabular-nums;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .25rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
h4 { font-size: .9rem; margin: 1rem 0 .3rem; }
p { margin: .25rem 0 .75rem; overflow-wrap: anywhere; }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
.faint, .legend, .axis { color: var(--faint); }
.bad { color: var(--slower); font-weight: 600; }
.columns { display: grid; gap: 0 2.5rem; grid-template-columns: 1fr 1fr; }
.columns > * { min-width: 0; }
.tiles { display: grid; gap: .75rem; margin: 1rem 0; padding: 0;
  grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); }
.tiles div { background: var(--card); border-radius: 6px; padding: .6rem .8rem; min-width: 0; }
.tiles dt { font-size: .75rem; color: var(--faint); }
.tiles dd { margin: 0; font-size: 1.15rem; font-weight: 600; overflow-wrap: anywhere; }
.row {
  display: grid; align-items: center; gap: 0 .75rem;
  grid-template-columns: minmax(0, 12.5rem) minmax(0, 1fr) 11rem;
}
.columns .row { grid-template-columns: minmax(0, 9.5rem) minmax(0, 1fr) 8rem; }
.label { overflow-wrap: anywhere; line-height: 1.2; font-size: .9rem; }
.group { font-size: .8rem; color: var(--faint); margin-top: .5rem; overflow-wrap: anywhere; }
.value { font-size: .9rem; white-space: nowrap; }
.track { display: block; width: 100%; height: 26px; overflow: visible; }
.axis { position: relative; height: 1.5rem; font-size: .75rem; }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.grid { stroke: var(--grid); vector-effect: non-scaling-stroke; } .zero { stroke: var(--faint); }
.spread { stroke: var(--text); stroke-width: 1.5; }
.marker { overflow: visible; } .marker path { fill: var(--marker); stroke: var(--page); }
.bar { fill: var(--bar); } .baseline { fill: var(--baseline); }
.faster { fill: var(--faster); } .slower { fill: var(--slower); }
.open { fill: var(--baseline); } .reserved { fill: var(--grid); }
.waiting { fill: var(--waiting); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: .8rem; margin: .3rem 0; }
.legend i { display: inline-block; width: .75em; height: .75em; margin-right: .35em; }
.legend svg { width: 1em; height: 1em; vertical-align: -.1em; overflow: visible; }
.legend .key { width: 24px; height: 8px; margin-right: .35em; vertical-align: middle; }
.plot { margin: 0 0 1rem; min-width: 0; }
.plot figcaption { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1rem; }
.plot-area { display: grid; grid-template-columns: 4.2rem minmax(0, 1fr); }
.canvas { position: relative; height: 11rem; cursor: crosshair; touch-action: pan-y; }
.canvas svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible; }
.line { fill: none; stroke-width: 1.6; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.series-0 { stroke: var(--series-0); --dot: var(--series-0); }
.series-1 { stroke: var(--series-1); --dot: var(--series-1); }
.series-2 { stroke: var(--series-2); --dot: var(--series-2); }
.series-3 { stroke: var(--series-3); --dot: var(--series-3); }
.series-4 { stroke: var(--series-4); --dot: var(--series-4); }
.series-5 { stroke: var(--series-5); --dot: var(--series-5); }
.series-6 { stroke: var(--series-6); --dot: var(--series-6); }
.series-7 { stroke: var(--series-7); --dot: var(--series-7); }
.dash-1 { stroke-dasharray: 7 3; }
.dash-2 { stroke-dasharray: 2 3; }
.dash-3 { stroke-dasharray: 10 3 2 3; }
.dash-4 { stroke-dasharray: 12 4; }
.dash-5 { stroke-dasharray: 4 4; }
.dash-6 { stroke-dasharray: 8 3 2 3 2 3; }
.dash-7 { stroke-dasharray: 1 4; }
.dot, .mark { position: absolute; transform: translate(-50%, -50%); pointer-events: none; }
.dot { width: 7px; height: 7px; border-radius: 50%; background: var(--dot);
  border: 1px solid var(--page); }
.mark { font-size: .65rem; line-height: 1.15rem; width: 1.15rem; text-align: center;
  border-radius: 50%; background: var(--marker); color: #1d2430; }
.hair { position: absolute; display: none; top: 0; bottom: 0; width: 1px; background: var(--text);
  pointer-events: none; }
.y-axis, .x-axis { position: relative; font-size: .72rem; color: var(--faint); }
.y-axis span { position: absolute; right: .5rem; transform: translateY(-50%); white-space: nowrap; }
.x-axis { grid-column: 2; height: 1.3rem; }
.x-axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.reading { display: block; min-height: 1.4em; padding-left: 4.2rem; font-size: .75rem;
  color: var(--faint); overflow-wrap: anywhere; }
.notes { font-size: .75rem; color: var(--faint); margin: .2rem 0 0 4.2rem; padding-left: 1.4em;
  overflow-wrap: anywhere; }
.lanes { display: grid; grid-template-columns: minmax(5.5rem, 8rem) minmax(0, 1fr) 3.2rem;
  gap: .35rem .6rem; align-items: center; font-size: .8rem; }
.lanes svg { display: block; width: 100%; height: 22px; background: var(--card); }
.lanes .memory { height: 8rem; }
.lanes .axis { grid-column: 2; }
.lanes > span:nth-child(3n+1) { overflow-wrap: anywhere; line-height: 1.15; }
.area { position: relative; }
.area svg { display: block; width: 100%; height: 9rem; background: var(--card); }
.area .peak { stroke: var(--text); stroke-width: 1.4; vector-effect: non-scaling-stroke;
  stroke-dasharray: 6 4; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8rem; width: 100%; }
th, td { text-align: right; padding: .3rem .4rem; border-bottom: 1px solid var(--grid);
  white-space: nowrap; }
th { color: var(--faint); font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.keys td, .keys th { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.keys td:first-child { white-space: nowrap; }
pre { background: var(--card); padding: .75rem 1rem; overflow-x: auto; font-size: .8rem;
  border-radius: 6px; }
.samples { white-space: pre-wrap; overflow-wrap: anywhere; }
summary { cursor: pointer; margin-top: 1rem; }
@media (max-width: 720px) {
  .columns { grid-template-columns: minmax(0, 1fr); }
  .row, .columns .row { grid-template-columns: minmax(0, 1fr) auto; margin-bottom: .35rem; }
  .row .track, .row .axis { grid-column: 1 / -1; grid-row: 2; margin: 0 2%; width: 96%; }
  .value { white-space: normal; text-align: right; }
  .lanes { grid-template-columns: 4.6rem minmax(0, 1fr) 2.6rem; font-size: .72rem; }
  .lanes .axis span:nth-child(even) { display: none; }
  .plot-area { grid-template-columns: 3.4rem minmax(0, 1fr); }
  .reading { padding-left: 0; }
  .notes { margin-left: 0; }
}
)css";

}  // namespace longshore::trainer
