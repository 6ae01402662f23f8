  // The part of the time that the charts show: chosen by dragging, by two fingers, by keys or by the bar's buttons.

  const SHORTEST_S = 2;
  const DRAG_PX = 8;
  const longest = Math.max(0, ...charts.map((each) => each.end));

  let shown = WHOLE_RUN;

  const bar = document.createElement("div");
  bar.className = "zoom";
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "The part of the time that all charts show");
  bar.hidden = true;
  const spanShown = document.createElement("span");
  spanShown.setAttribute("role", "status");
  bar.append(spanShown);
  document.body.append(bar);

  function showSpan(span) {
    shown = span;
    for (const each of charts) each.show(span);
    bar.hidden = span === WHOLE_RUN;
    if (span !== WHOLE_RUN) spanShown.textContent = `seconds ${whole(span[0])} to ${whole(span[1])}`;
  }

  // Shows from one time to another, to whole seconds, as far as there are any.
  function zoomTo(from, to) {
    const length = Math.min(Math.max(Math.round(to - from), SHORTEST_S), longest);
    const start = Math.min(Math.max(Math.round(from), 0), longest - length);
    showSpan(length >= longest ? WHOLE_RUN : [start, start + length]);
  }

  function zoomBy(factor, around) {
    const [from, to] = shown ?? [0, longest];
    const middle = around >= from && around <= to ? around : (from + to) / 2;
    const half = ((to - from) * factor) / 2;
    zoomTo(middle - half, middle + half);
  }

  function pan(part) {
    if (shown === WHOLE_RUN) return;
    const [from, to] = shown;
    const by = Math.sign(part) * Math.max(1, Math.round(Math.abs(part) * (to - from)));
    zoomTo(from + by, to + by);
  }

  const showAll = () => showSpan(WHOLE_RUN);
  const zoomIn = () => zoomBy(0.5, lookedAt + 0.5);
  const zoomOut = () => zoomBy(2, lookedAt + 0.5);

  for (const [sign, name, act] of [
    ["◀", "Earlier", () => pan(-0.5)],
    ["▶", "Later", () => pan(0.5)],
    ["−", "Zoom out", zoomOut],
    ["+", "Zoom in", zoomIn],
    ["Whole run", "", showAll],
  ]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = sign;
    if (name) button.setAttribute("aria-label", name);
    button.addEventListener("click", act);
    bar.append(button);
  }

  // What pointers and keys do in one chart.

  const LOOKS = {
    ArrowLeft: () => lookedAt - 1,
    ArrowRight: () => lookedAt + 1,
    Home: () => (shown === WHOLE_RUN ? 0 : shown[0]),
    End: () => (shown === WHOLE_RUN ? Infinity : shown[1] - 1),
  };

  const ZOOMS = {
    "+": zoomIn,
    "=": zoomIn,
    "-": zoomOut,
    "0": showAll,
    PageUp: () => pan(-0.5),
    PageDown: () => pan(0.5),
  };

  class Handling {
    constructor(chart) {
      this.chart = chart;
      this.fingers = new Map();
      for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel", "pointerleave", "keydown"]) {
        chart.area.addEventListener(name, (event) => this[name](event));
      }
      chart.area.addEventListener("blur", lookAway);
      chart.area.addEventListener("dblclick", showAll);
    }

    look(event) {
      const time = this.chart.timeAt(event.clientX);
      const [from, to] = shown ?? [0, this.chart.end];
      this.chart.look(Math.floor(Math.max(from, Math.min(time, to - 0.5))));
    }

    pointerdown(event) {
      this.look(event);
      if (event.pointerType === "mouse") {
        if (event.button === 0) this.grip = { clientX: event.clientX, time: this.chart.timeAt(event.clientX) };
        if (this.grip) this.chart.area.setPointerCapture(event.pointerId);
        return;
      }
      this.fingers.set(event.pointerId, event.clientX);
      if (this.fingers.size === 2) this.held = [...this.fingers.values()].map((x) => this.chart.timeAt(x));
    }

    pointermove(event) {
      if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, event.clientX);
      if (this.held) this.spread();
      else this.look(event);
      if (this.isDragged(event)) this.chart.drawing.choose(this.grip.time, this.chart.timeAt(event.clientX));
      else this.chart.drawing.chooseNothing();
    }

    pointerup(event) {
      if (this.isDragged(event)) {
        const times = [this.grip.time, this.chart.timeAt(event.clientX)];
        zoomTo(Math.floor(Math.min(...times)), Math.ceil(Math.max(...times)));
      }
      this.pointercancel(event);
    }

    pointercancel(event) {
      this.grip = undefined;
      this.chart.drawing?.chooseNothing();
      this.fingers.delete(event.pointerId);
      if (this.held && this.fingers.size < 2) {
        this.held = undefined;
        if (shown !== WHOLE_RUN) zoomTo(...shown);
      }
    }

    pointerleave(event) {
      if (event.pointerType === "mouse" && !this.grip) lookAway();
    }

    isDragged(event) {
      return this.grip !== undefined && Math.abs(event.clientX - this.grip.clientX) >= DRAG_PX;
    }

    // Keeps the times that two fingers hold below them.
    spread() {
      const { drawing } = this.chart;
      const [one, other] = [...this.fingers.values()].map((x) => (drawing.pointerX(x) - drawing.left) / drawing.width);
      if (Math.abs(other - one) < 0.02) return;
      const length = (this.held[1] - this.held[0]) / (other - one);
      if (!(length >= SHORTEST_S)) return;
      const from = Math.max(0, this.held[0] - one * length);
      showSpan(length >= longest ? WHOLE_RUN : [from, Math.min(from + length, longest)]);
    }

    keydown(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "Escape") {
        if (shown === WHOLE_RUN) lookAway();
        else showAll();
      } else if (event.key in ZOOMS) {
        event.preventDefault();
        ZOOMS[event.key]();
      } else if (event.key in LOOKS) {
        event.preventDefault();
        this.chart.look(LOOKS[event.key]());
        this.follow();
      }
    }

    // Moves the part that is shown along with the second that is looked at.
    follow() {
      if (shown === WHOLE_RUN || (lookedAt >= shown[0] && lookedAt < shown[1])) return;
      const second = lookedAt;
      pan(second < shown[0] ? -0.5 : 0.5);
      this.chart.look(second);
    }
  }

  for (const each of charts) new Handling(each);
  for (const hint of document.querySelectorAll(".how")) hint.hidden = false;
