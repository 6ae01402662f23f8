// The five places where a classic queue keeps its messages, as tanks that fill and empty.

import { h, number } from "../dom.js";

const TANKS = [["q1", "new, in memory"], ["q2", "bodies on disk"], ["delta", "all on disk"],
  ["q3", "bodies on disk"], ["q4", "in memory, next to go"]];

export class PagingPicture {
  constructor() {
    this.published = h("b", {}, "–");
    this.delivered = h("b", {}, "–");
    this.before = null;
    this.tanks = TANKS.map(([name, words]) => {
      const tank = { name, level: h("i", {}), count: h("b", {}), change: h("small", {}) };
      tank.place = h("li", { class: name === "delta" ? "disk" : "" }, h("span", {}, name), h("div", { class: "tank" }, tank.level), tank.count, tank.change, h("small", {}, words));
      return tank;
    });
    this.place = h("ol", { class: "paging", "aria-label": "Where the messages are" },
      h("li", { class: "pipe" }, this.published, h("small", {}, "come each second →")),
      ...this.tanks.map((tank) => tank.place),
      h("li", { class: "pipe" }, this.delivered, h("small", {}, "→ go each second")));
  }

  update(status, stats) {
    const now = Date.now();
    const counts = TANKS.map(([name]) => (name === "delta" ? status.delta[2] : status[name]));
    const most = Math.max(1, ...counts);
    this.tanks.forEach((tank, at) => {
      tank.level.style.height = `${counts[at] ? Math.max(3, (100 * counts[at]) / most) : 0}%`;
      tank.count.textContent = number(counts[at]);
      const change = this.before === null ? 0 : (1000 * (counts[at] - this.before.counts[at])) / Math.max(1, now - this.before.now);
      tank.change.textContent = Math.abs(change) < 0.5 ? "steady" : `${change > 0 ? "▲" : "▼"} ${number(Math.round(Math.abs(change)))}/s`;
    });
    this.before = { now, counts };
    this.published.textContent = number(stats?.publish_details?.rate ?? 0);
    this.delivered.textContent = number(stats?.deliver_get_details?.rate ?? 0);
  }
}
