// The style of a comparison's page, with light and dark colours, for screens of any width.
#pragma once

namespace longshore::trainer {

inline constexpr const char* kReportStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #fff; --text: #1d2430; --faint: #667085; --grid: #e4e7ec; --card: #f7f8fa;
  --bar: #3b6fb6; --baseline: #98a2b3; --faster: #2e9e6b; --slower: #cf4f4f; --marker: #e08a00;
  --parameters: #4e79a7; --optimizer: #f28e2b; --gradients: #e15759; --batch: #9c755f;
  --kept: #59a14f; --temporaries: #edc948; --staging: #b07aa1; --workspace: #76b7b2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181f; --text: #e6e9ef; --faint: #98a2b3; --grid: #2f3642; --card: #1c222c;
    --bar: #6b9fe8; --baseline: #667085; --faster: #4cc38a; --slower: #ef7676; --marker: #ffb340;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 76rem;
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  background: var(--page); color: var(--text); font-variant-numeric: tabular-nums;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .25rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p { margin: .25rem 0 .75rem; }
.faint, .legend, .axis { color: var(--faint); }
.faint { overflow-wrap: anywhere; }
.bad { color: var(--slower); font-weight: 600; }
.columns { display: grid; gap: 0 2.5rem; grid-template-columns: 1fr 1fr; }
.columns > * { min-width: 0; }
.row {
  display: grid; align-items: center; gap: 0 .75rem;
  grid-template-columns: minmax(0, 12.5rem) minmax(0, 1fr) 11rem;
}
.columns .row { grid-template-columns: minmax(0, 9.5rem) minmax(0, 1fr) 5.5rem; }
.label { overflow-wrap: anywhere; line-height: 1.2; font-size: .9rem; }
.group { font-size: .8rem; color: var(--faint); margin-top: .5rem; overflow-wrap: anywhere; }
.value { font-size: .9rem; white-space: nowrap; }
.track { display: block; width: 100%; height: 26px; overflow: visible; }
.axis { position: relative; height: 1.5rem; font-size: .75rem; }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.grid { stroke: var(--grid); } .zero { stroke: var(--faint); }
.spread { stroke: var(--text); stroke-width: 1.5; }
.marker { overflow: visible; } .marker path { fill: var(--marker); stroke: var(--page); }
.bar { fill: var(--bar); } .baseline { fill: var(--baseline); }
.faster { fill: var(--faster); } .slower { fill: var(--slower); }
.open { fill: var(--baseline); } .reserved { fill: var(--grid); }
.parameters { fill: var(--parameters); } .optimizer { fill: var(--optimizer); }
.gradients { fill: var(--gradients); } .batch { fill: var(--batch); } .kept { fill: var(--kept); }
.temporaries { fill: var(--temporaries); } .staging { fill: var(--staging); }
.workspace { fill: var(--workspace); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: .8rem; margin: .3rem 0; }
.legend i { display: inline-block; width: .75em; height: .75em; margin-right: .35em; }
.legend svg { width: 1em; height: 1em; vertical-align: -.1em; overflow: visible; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8rem; width: 100%; }
th, td { text-align: right; padding: .3rem .4rem; border-bottom: 1px solid var(--grid);
  white-space: nowrap; }
th { color: var(--faint); font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
pre { background: var(--card); padding: .75rem 1rem; overflow-x: auto; font-size: .8rem;
  border-radius: 6px; }
summary { cursor: pointer; margin-top: 1rem; }
@media (max-width: 720px) {
  .columns { grid-template-columns: 1fr; }
  .row, .columns .row { grid-template-columns: minmax(0, 1fr) auto; margin-bottom: .35rem; }
  .row .track, .row .axis { grid-column: 1 / -1; grid-row: 2; margin: 0 2%; width: 96%; }
}
)css";

}  // namespace longshore::trainer
