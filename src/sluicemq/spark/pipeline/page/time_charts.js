  // The charts over time: a line through all of them, what it meets in the one that is looked at, and the part
  // of the time that all of them show.

  const WHOLE_RUN = null;
  const TICKS = { broad: 10, narrow: 6 };

  // A drawing of matplotlib's, of which a part can be shown: what lies along its axis of seconds is moved.
  class Drawing {
    constructor(svg, end) {
      this.svg = svg;
      this.end = end;
      [this.left, this.top, this.right, this.bottom] = svg.dataset.frame.split(" ").map(Number);
      this.from = 0;
      this.to = end;
      const within = (css) => [...svg.querySelectorAll(`.over-time ${css}`)].filter((each) => !each.closest("defs"));
      this.paths = within("path").map((path) => ({ path, whole: path.getAttribute("d") }));
      this.points = within("use").map((point) => ({ point, x: Number(point.getAttribute("x")) }));
      this.labels = [...svg.querySelectorAll(".step")];
      this.ticks = [...svg.querySelectorAll(".tick")];
      this.newTicks = [];
    }

    get width() {
      return this.right - this.left;
    }

    xOf(time) {
      return this.left + ((time - this.from) / (this.to - this.from)) * this.width;
    }

    timeAt(x) {
      return this.from + ((x - this.left) / this.width) * (this.to - this.from);
    }

    pointerX(clientX) {
      const box = this.svg.getBoundingClientRect();
      return ((clientX - box.left) / box.width) * this.svg.viewBox.baseVal.width;
    }

    show(from, to) {
      this.from = from;
      this.to = to;
      const isWhole = from === 0 && to === this.end;
      const moved = (x) => this.xOf(((x - this.left) / this.width) * this.end);
      for (const { path, whole: before } of this.paths) {
        const place = (_, letter, x) => `${letter} ${moved(Number(x)).toFixed(2)}`;
        path.setAttribute("d", isWhole ? before : before.replace(/([ML]) (\S+)/g, place));
      }
      for (const { point, x } of this.points) {
        point.setAttribute("x", moved(x));
        point.style.display = this.isInside(moved(x)) ? "" : "none";
      }
      for (const label of this.labels) {
        const [start, end] = [Number(label.dataset.start), Number(label.dataset.end)];
        const before = this.left + (start / this.end) * this.width;
        label.setAttribute("transform", `translate(${this.xOf(Math.max(start, from)) - before} 0)`);
        label.style.display = start < to && end > from ? "" : "none";
      }
      this.drawTicks(isWhole);
    }

    isInside(x) {
      return x >= this.left - 0.01 && x <= this.right + 0.01;
    }

    drawTicks(isWhole) {
      for (const tick of this.newTicks) tick.remove();
      for (const tick of this.ticks) tick.style.display = isWhole ? "" : "none";
      this.newTicks = isWhole || !this.ticks.length ? [] : this.tickTimes().map((time) => this.tick(time));
    }

    tickTimes() {
      const most = TICKS[this.svg.getAttribute("class")];
      const span = this.to - this.from;
      let step = 1;
      for (let position = 0; span / step > most; position += 1) {
        step = [1, 2, 5][position % 3] * 10 ** Math.floor(position / 3);
      }
      const times = [];
      for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) times.push(time);
      return times;
    }

    tick(time) {
      const tick = this.ticks.at(-1).cloneNode(true);
      const [mark, text] = [tick.querySelector("use"), tick.querySelector("text")];
      const x = this.xOf(time);
      mark.setAttribute("x", x);
      text.setAttribute("x", x);
      text.removeAttribute("transform");
      text.textContent = whole(time);
      tick.style.display = "";
      this.ticks[0].parentNode.append(tick);
      return tick;
    }

    // The line through the middle of a second.
    mark(second) {
      const x = this.xOf(second + 0.5);
      this.cursor ??= this.draw("line", "cursor", { y1: this.top, y2: this.bottom });
      this.cursor.setAttribute("x1", x);
      this.cursor.setAttribute("x2", x);
      this.cursor.style.display = second < this.end && this.isInside(x) ? "" : "none";
      return (x / this.svg.viewBox.baseVal.width) * this.svg.getBoundingClientRect().width;
    }

    // What is being chosen, between two times.
    choose(from, to) {
      const [low, high] = [from, to].map((time) => Math.min(Math.max(this.xOf(time), this.left), this.right)).sort((a, b) => a - b);
      this.choice ??= this.draw("rect", "choice", { y: this.top, height: this.bottom - this.top });
      this.choice.setAttribute("x", low);
      this.choice.setAttribute("width", high - low);
    }

    chooseNothing() {
      this.choice?.remove();
      this.choice = undefined;
    }

    unmark() {
      if (this.cursor) this.cursor.style.display = "none";
    }

    draw(kind, name, places) {
      const drawn = document.createElementNS("http://www.w3.org/2000/svg", kind);
      drawn.setAttribute("class", name);
      for (const [place, value] of Object.entries(places)) drawn.setAttribute(place, value);
      this.svg.append(drawn);
      return drawn;
    }
  }

  class Tip {
    constructor(area) {
      this.area = area;
      this.box = document.createElement("div");
      this.box.className = "tip";
      this.box.setAttribute("role", "status");
      this.box.hidden = true;
      area.append(this.box);
    }

    // Shows a head and lines of [colour's role, name, figure] beside the place `x`, in pixels.
    tell(x, title, lines) {
      const head = document.createElement("b");
      head.textContent = title;
      this.box.replaceChildren(head, ...lines.map((line) => this.line(...line)));
      this.box.hidden = false;
      const room = this.area.clientWidth;
      const width = this.box.offsetWidth;
      const beside = x + 14 + width > room ? x - 14 - width : x + 14;
      this.box.style.left = `${Math.max(0, Math.min(beside, room - width))}px`;
    }

    line(role, name, figure) {
      const line = document.createElement("div");
      const [colour, words, value] = ["i", "span", "b"].map((kind) => document.createElement(kind));
      colour.style.background = `var(--${role})`;
      words.textContent = name;
      value.textContent = figure;
      line.append(colour, words, value);
      return line;
    }

    hide() {
      this.box.hidden = true;
    }
  }

  class TimeChart {
    constructor(figure) {
      this.area = figure.querySelector("div");
      this.end = Number(figure.dataset.end);
      this.runs = figure.dataset.runs.split(" ").map((position) => data.runs[position]);
      this.chart = data.charts[figure.dataset.chart];
      this.drawings = [...this.area.querySelectorAll("svg")].map((svg) => new Drawing(svg, this.end));
      this.tip = new Tip(this.area);
      this.area.tabIndex = 0;
    }

    // The one of its drawings that is seen; undefined when it is in a part of the page that is folded.
    get drawing() {
      return this.drawings.find(({ svg }) => svg.getClientRects().length);
    }

    timeAt(clientX) {
      return this.drawing.timeAt(this.drawing.pointerX(clientX));
    }

    show(span) {
      const [from, to] = span ?? [0, this.end];
      for (const drawing of this.drawings) drawing.show(from, to);
      this.unmark();
    }

    mark(second) {
      const { drawing } = this;
      if (drawing !== undefined) this.x = drawing.mark(second);
      this.tip.hide();
    }

    unmark() {
      this.tip.hide();
      for (const drawing of this.drawings) drawing.unmark();
    }

    get lines() {
      const [run] = this.runs;
      const { column } = this.chart.lines[0];
      if (this.chart.by_node) return run.nodes.map(({ name, role }) => ({ run, node: name, label: name, role, column }));
      if (this.runs.length > 1) return this.runs.map((each) => ({ run: each, label: each.label, role: each.role, column }));
      return this.chart.lines.map((line) => ({ run, ...line }));
    }

    get last() {
      return Math.max(...this.runs.map((run) => bySecond.of(run.label).length)) - 1;
    }

    tell(second) {
      const step = this.runs.length > 1 ? undefined
        : this.runs[0].steps.find((one) => one.start <= second + 0.5 && second + 0.5 < one.end);
      const title = `second ${whole(second)}${step === undefined ? "" : `, ${step.name}`}`;
      const told = this.lines.map((line) => {
        const value = figureOf(line, second);
        return [line.role, line.label, value === null ? NOTHING : IN_WORDS[this.chart.unit](value)];
      });
      this.tip.tell(this.x, title, told);
    }

    look(second) {
      if (this.last < 0) return;
      lookedAt = Math.max(0, Math.min(second, this.last));
      for (const each of charts) each.mark(lookedAt);
      this.tell(lookedAt);
    }
  }

  let lookedAt = 0;
  const charts = [...document.querySelectorAll("figure[data-chart]")].map((figure) => new TimeChart(figure));

  function lookAway() {
    for (const each of charts) each.unmark();
  }
