// Charts over time by uPlot: the history first, then what comes live.

import uPlot from "/vendor/uPlot.esm.js";
import { h } from "./dom.js";

const COLOURS = ["#0b8fb8", "#d97706", "#2f9e57", "#b3261e", "#7c5cc4", "#64748b"];
const KEPT = 600;

export class Chart {
  constructor(title, names, isLog = false) {
    this.times = [];
    this.columns = names.map(() => []);
    this.place = h("div", { class: "chart", role: "img", "aria-label": title });
    const ink = getComputedStyle(document.body).color;
    const axis = { stroke: ink, grid: { stroke: "#8884", width: 1 }, ticks: { stroke: "#8884" } };
    const times = { ...axis, size: 32, space: 80, values: (_, splits) => splits.map(clock) };
    const values = { ...axis, size: 75, ...(isLog ? { grid: { show: false }, ticks: { show: false } } : {}) };
    const series = names.map((name, index) => ({ label: name, stroke: COLOURS[index], width: 1.5, points: { show: false } }));
    this.plot = new uPlot(
      { title, width: 400, height: 200, series: [{ value: (_, time) => clock(time) }, ...series], axes: [times, values], scales: { y: isLog ? { distr: 3 } : {} } },
      [[], ...this.columns],
      this.place,
    );
    this.observer = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width > 0) this.plot.setSize({ width, height: 200 });
    });
    this.observer.observe(this.place);
  }

  add(time, values) {
    if (this.times.length && time <= this.times[this.times.length - 1]) return;
    this.times.push(time);
    values.forEach((value, index) => this.columns[index].push(value ?? 0));
    if (this.times.length > KEPT) [this.times, ...this.columns].forEach((column) => column.shift());
  }

  draw() {
    this.plot.setData([this.times, ...this.columns]);
    if (this.plot.cursor.idx == null) this.plot.setLegend({ idx: this.times.length - 1 }, false);
  }
}

function clock(time) {
  return time == null ? "" : new Date(time * 1000).toTimeString().slice(0, 8);
}

export function history(chart, details, asRates, shown = (...values) => values) {
  // details: what the API has under NAME_details, with samples, the newest first; shown: from values to those of the chart
  const lists = details.map((each) => [...(each?.samples ?? [])].reverse());
  const longest = lists.reduce((one, other) => (other.length > one.length ? other : one), []);
  longest.forEach(({ timestamp }, at) => {
    if (asRates && at === 0) return;
    const values = lists.map((list) => {
      if (!list[at]) return 0;
      if (!asRates) return list[at].sample;
      const passed = (list[at].timestamp - list[at - 1].timestamp) / 1000;
      return Math.max(0, (list[at].sample - list[at - 1].sample) / passed);
    });
    chart.add(timestamp / 1000, shown(...values));
  });
  chart.draw();
}
