  // The distribution of the latency of one queue, which the reader chooses: a curve for each in-flight limit.

  const SVG = "http://www.w3.org/2000/svg";
  const TICK_SHARES = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
  const QUEUE_CHART_PX = 300;
  const MARGIN = { top: 12, bottom: 44 };
  const LEFT_PART = { broad: 0.075, narrow: 0.164 };
  const RIGHT_PART = { broad: 0.0115, narrow: 0.022 };
  const FEW_DECADES = 200;

  const percent = (share) => `${Number((share * 100).toFixed(4))} %`;
  const latencyTick = (ms) => (ms < 1 ? `${ms * 1000} µs` : ms < 1000 ? `${ms} ms` : `${whole(ms / 1000)} s`);

  class QueueChart {
    constructor(figure) {
      this.run = data.runs[figure.dataset.run];
      this.area = figure.querySelector("div");
      this.choice = figure.querySelector("select");
      this.tip = new Tip(this.area);
      this.choice.append(...this.run.queues.map((queue) => this.option(queue)));
      const slowest = (queue) => Math.max(...queue.curves.map((curve) => curve.at(-1) ?? 0));
      this.choice.value = this.run.queues.reduce((a, b) => (slowest(b) > slowest(a) ? b : a)).queue;
      this.choice.addEventListener("change", () => this.draw());
      this.area.tabIndex = 0;
      this.area.addEventListener("pointermove", (event) => this.look(this.placeAt(event.clientX)));
      this.area.addEventListener("pointerdown", (event) => this.look(this.placeAt(event.clientX)));
      this.area.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.tip.hide());
      this.area.addEventListener("blur", () => this.tip.hide());
      this.area.addEventListener("keydown", (event) => this.keydown(event));
      this.place = 0;
      figure.hidden = false;
      new ResizeObserver(() => this.draw()).observe(this.area);
    }

    option({ queue, curves }) {
      const option = document.createElement("option");
      const most = Math.max(...curves.map((curve) => curve.at(-1) ?? 0));
      option.value = queue;
      option.textContent = `queue ${queue}, at most ${duration(most)}`;
      return option;
    }

    get queue() {
      return this.run.queues.find(({ queue }) => String(queue) === this.choice.value);
    }

    // How rare, as 1 / (1 - share), the messages at this place of a curve are; the last is beyond all of them.
    rarity(place) {
      return 10 ** (place / data.queue_points_per_decade);
    }

    xOf(place) {
      return this.left + (place / (this.places - 1)) * (this.right - this.left);
    }

    yOf(ms) {
      const part = Math.log(ms / this.low) / Math.log(this.high / this.low);
      return QUEUE_CHART_PX - MARGIN.bottom - part * (QUEUE_CHART_PX - MARGIN.top - MARGIN.bottom);
    }

    placeAt(clientX) {
      const x = clientX - this.area.getBoundingClientRect().left;
      return Math.round(((x - this.left) / (this.right - this.left)) * (this.places - 1));
    }

    draw() {
      this.tip.hide();
      this.width = this.area.clientWidth;
      const form = matchMedia("(max-width: 640px)").matches ? "narrow" : "broad";
      [this.left, this.right] = [LEFT_PART[form] * this.width, (1 - RIGHT_PART[form]) * this.width];
      const { curves } = this.queue;
      const values = curves.flat().filter((ms) => ms > 0);
      this.places = Math.max(2, ...curves.map((curve) => curve.length));
      [this.low, this.high] = [Math.min(...values) / 1.3, Math.max(...values) * 1.3];
      this.area.querySelector("svg")?.remove();
      this.svg = this.add(this.area, "svg", {
        viewBox: `0 0 ${this.width} ${QUEUE_CHART_PX}`,
        role: "img",
        "aria-label": `Distribution of the latency of queue ${this.queue.queue}`,
      });
      this.drawAxes();
      curves.forEach((curve, step) => this.drawCurve(curve, data.styles[step % data.styles.length]));
    }

    drawAxes() {
      const { left, right } = this;
      const bottom = QUEUE_CHART_PX - MARGIN.bottom;
      for (const ms of this.latencyTicks()) {
        this.add(this.svg, "path", { class: "grid", d: `M${left} ${this.yOf(ms)}H${right}` });
        this.write(left - 6, this.yOf(ms) + 4, latencyTick(ms), "end");
      }
      this.add(this.svg, "path", { class: "axis", d: `M${left} ${MARGIN.top}V${bottom}H${right}` });
      for (const share of TICK_SHARES) {
        const place = Math.log10(1 / (1 - share)) * data.queue_points_per_decade;
        if (place > this.places - 1.5) break;
        this.add(this.svg, "path", { class: "axis", d: `M${this.xOf(place)} ${bottom}v4` });
        this.write(this.xOf(place), bottom + 17, percent(share), "middle");
      }
      this.write((left + right) / 2, bottom + 36, "share of the messages that took at most so long", "middle");
    }

    latencyTicks() {
      const parts = this.high / this.low < FEW_DECADES ? [1, 2, 5] : [1];
      const ticks = [];
      for (let decade = -3; decade < 7; decade += 1) {
        for (const part of parts) ticks.push(Number((part * 10 ** decade).toPrecision(1)));
      }
      return ticks.filter((ms) => ms > this.low && ms < this.high);
    }

    drawCurve(curve, { role, dashes }) {
      const points = curve.map((ms, place) => `${this.xOf(place).toFixed(1)} ${this.yOf(Math.max(ms, this.low)).toFixed(1)}`);
      if (!points.length) return;
      this.add(this.svg, "path", { class: "curve", d: `M${points.join("L")}`, stroke: `var(--${role})`, "stroke-dasharray": dashes });
      const [x, y] = points.at(-1).split(" ");
      this.add(this.svg, "circle", { cx: x, cy: y, r: 3, fill: `var(--${role})` });
    }

    look(place) {
      this.place = Math.max(0, Math.min(place, this.places - 1));
      const share = 1 - 1 / this.rarity(this.place);
      const told = this.queue.curves.map((curve, step) => {
        const ms = curve[Math.min(this.place, curve.length - 1)];
        const isLargest = this.place >= curve.length - 1;
        const figure = ms === undefined ? NOTHING : `${duration(ms)}${isLargest ? ", the largest" : ""}`;
        return [data.styles[step % data.styles.length].role, this.run.steps[step].name, figure];
      });
      this.tip.tell(this.xOf(this.place), `${Number((share * 100).toPrecision(4))} % took at most`, told);
    }

    keydown(event) {
      const places = { ArrowLeft: this.place - 1, ArrowRight: this.place + 1, Home: 0, End: this.places - 1 };
      if (event.key === "Escape") this.tip.hide();
      if (!(event.key in places)) return;
      event.preventDefault();
      this.look(places[event.key]);
    }

    write(x, y, words, anchor) {
      this.add(this.svg, "text", { x, y, "text-anchor": anchor }).textContent = words;
    }

    add(parent, kind, attributes) {
      const made = document.createElementNS(SVG, kind);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
      parent.append(made);
      return made;
    }
  }

  for (const figure of document.querySelectorAll("figure[data-queues]")) new QueueChart(figure);
