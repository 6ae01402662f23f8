/* What the page can do with a script; without one it shows all it has to say. Under the pointer the charts over
   time tell the figures of a second, all at the same one, and tables are handed out as files. Everything is in
   the page already: nothing is loaded. Names of runs come into the page as text only. */

"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NOTHING = "–";

  // Numbers, as formats.py writes them.

  const whole = (value) => Math.round(value).toLocaleString("en-US");

  function duration(ms) {
    if (ms >= 60000) return `${(ms / 60000).toFixed(1)} min`;
    if (ms >= 999.5) return `${(ms / 1000).toFixed(1)} s`;
    return `${ms.toFixed(ms >= 9.95 ? 0 : ms >= 0.995 ? 1 : 2)} ms`;
  }

  const IN_WORDS = {
    "messages/s": (value) => `${whole(value)}/s`,
    "messages": whole,
    "latency": duration,
    "cores": (value) => value.toFixed(2),
    "MiB": (value) => `${whole(value / 2 ** 20)} MiB`,
    "connections": whole,
    "queues": whole,
  };

  // The seconds of each run, by its label, and of each of its nodes, by both.

  function secondsIn(table, keys) {
    const { columns, rows } = data.tables[table];
    const columnOf = new Map(columns.map((name, position) => [name, position]));
    const found = new Map();
    for (const row of rows) {
      const key = JSON.stringify(keys.map((name) => row[columnOf.get(name)]));
      if (!found.has(key)) found.set(key, []);
      found.get(key)[row[columnOf.get("second")]] = row;
    }
    const of = (...key) => found.get(JSON.stringify(key)) ?? [];
    return { of, figure: (row, column) => (row === undefined ? null : row[columnOf.get(column)]) };
  }

  const bySecond = secondsIn("per_second", ["run"]);
  const byNode = secondsIn("per_node", ["run", "node"]);

  function figureOf({ run, node, column }, second) {
    const table = node === undefined ? bySecond : byNode;
    return table.figure(table.of(run.label, ...(node === undefined ? [] : [node]))[second], column);
  }

  // The charts over time: a line through all of them, and what it meets in the one that is looked at.

  class TimeChart {
    constructor(figure) {
      this.area = figure.querySelector("div");
      this.end = Number(figure.dataset.end);
      this.runs = figure.dataset.runs.split(" ").map((position) => data.runs[position]);
      this.chart = data.charts[figure.dataset.chart];
      this.tip = document.createElement("div");
      this.tip.className = "tip";
      this.tip.setAttribute("role", "status");
      this.tip.hidden = true;
      this.area.append(this.tip);
      this.area.tabIndex = 0;
      this.cursors = new Map();
    }

    get drawing() {
      return [...this.area.querySelectorAll("svg")].find((svg) => svg.getClientRects().length);
    }

    secondAt(clientX) {
      const svg = this.drawing;
      const box = svg.getBoundingClientRect();
      const x = ((clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const [left, , right] = svg.dataset.frame.split(" ").map(Number);
      return Math.floor(((x - left) / (right - left)) * this.end);
    }

    mark(second) {
      const svg = this.drawing;
      if (svg === undefined) return;
      const [left, top, right, bottom] = svg.dataset.frame.split(" ").map(Number);
      if (!this.cursors.has(svg)) {
        const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
        line.setAttribute("class", "cursor");
        line.setAttribute("y1", top);
        line.setAttribute("y2", bottom);
        svg.append(line);
        this.cursors.set(svg, line);
      }
      const line = this.cursors.get(svg);
      const x = left + ((second + 0.5) / this.end) * (right - left);
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      line.style.display = second >= this.end ? "none" : "";
      this.x = (x / svg.viewBox.baseVal.width) * svg.getBoundingClientRect().width;
    }

    get lines() {
      const [run] = this.runs;
      const { column } = this.chart.lines[0];
      if (this.chart.by_node) return run.nodes.map(({ name, role }) => ({ run, node: name, label: name, role, column }));
      if (this.runs.length > 1) return this.runs.map((each) => ({ run: each, label: each.label, role: each.role, column }));
      return this.chart.lines.map((line) => ({ run, ...line }));
    }

    tell(second) {
      const step = this.runs.length > 1 ? undefined
        : this.runs[0].steps.find((one) => one.start <= second + 0.5 && second + 0.5 < one.end);
      const head = document.createElement("b");
      head.textContent = `second ${whole(second)}${step === undefined ? "" : `, ${step.name}`}`;
      this.tip.replaceChildren(head, ...this.lines.map((line) => this.entry(line, second)));
      this.tip.hidden = false;
      const room = this.area.clientWidth;
      const beside = this.x + 14 + this.tip.offsetWidth > room ? this.x - 14 - this.tip.offsetWidth : this.x + 14;
      this.tip.style.left = `${Math.max(0, Math.min(beside, room - this.tip.offsetWidth)) + this.area.scrollLeft}px`;
    }

    entry(line, second) {
      const value = figureOf(line, second);
      const entry = document.createElement("div");
      const colour = document.createElement("i");
      colour.style.background = `var(--${line.role})`;
      const name = document.createElement("span");
      name.textContent = line.label;
      const figure = document.createElement("b");
      figure.textContent = value === null ? NOTHING : IN_WORDS[this.chart.unit](value);
      entry.append(colour, name, figure);
      return entry;
    }

    look(second) {
      const last = Math.max(...this.runs.map((run) => bySecond.of(run.label).length)) - 1;
      if (last < 0) return;
      lookedAt = Math.max(0, Math.min(second, last));
      for (const each of charts) {
        each.mark(lookedAt);
        each.tip.hidden = true;
      }
      this.tell(lookedAt);
    }
  }

  let lookedAt = 0;
  const charts = [...document.querySelectorAll("figure[data-chart]")].map((figure) => new TimeChart(figure));

  function lookAway() {
    for (const each of charts) {
      each.tip.hidden = true;
      for (const line of each.cursors.values()) line.style.display = "none";
    }
  }

  const KEYS = {
    ArrowLeft: () => lookedAt - 1,
    ArrowRight: () => lookedAt + 1,
    Home: () => 0,
    End: () => Infinity,
  };

  for (const each of charts) {
    each.area.addEventListener("pointermove", (event) => each.look(each.secondAt(event.clientX)));
    each.area.addEventListener("pointerdown", (event) => each.look(each.secondAt(event.clientX)));
    each.area.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && lookAway());
    each.area.addEventListener("blur", lookAway);
    each.area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") lookAway();
      if (!(event.key in KEYS)) return;
      event.preventDefault();
      each.look(KEYS[event.key]());
    });
  }

  // Tables as files.

  function csvField(value) {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  const FORMS = {
    csv: {
      type: "text/csv",
      text: (names, found) => [names, ...found].map((row) => row.map(csvField).join(",") + "\r\n").join(""),
    },
    json: {
      type: "application/json",
      text: (names, found) => {
        const named = found.map((row) => Object.fromEntries(row.map((value, position) => [names[position], value])));
        return `${JSON.stringify(named, null, 1)}\n`;
      },
    },
  };

  function handOut(name, run, form) {
    const table = data.tables[name];
    const found = run === undefined ? table.rows : table.rows.filter((row) => row[0] === run);
    const file = new Blob([FORMS[form].text(table.columns, found)], { type: FORMS[form].type });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = `${[name, run].filter(Boolean).join("-").replace(/[^\p{L}\p{N}.-]+/gu, "_")}.${form}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  for (const offer of document.querySelectorAll(".download")) {
    const run = offer.dataset.run === undefined ? undefined : data.runs[offer.dataset.run].label;
    for (const button of offer.querySelectorAll("button")) {
      button.addEventListener("click", () => handOut(offer.dataset.table, run, button.value));
    }
    offer.hidden = false;
  }
})();
