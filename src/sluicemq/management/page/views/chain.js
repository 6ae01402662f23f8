// The chain as a picture: readers, channels, queues, store and writers, who holds up whom, since when.

import { watch } from "../api.js";
import { h, number, show, svg, table } from "../dom.js";

const COLUMNS = [["reader", "Readers"], ["channel", "Channels"], ["queue", "Queues"], ["message_store", "Store"], ["writer", "Writers"]];
const SHOWN = 12;
const WIDTH = 1100;
const BOX = { width: 180, height: 34, gap: 10, top: 30 };

export function chain() {
  const picture = h("div", {});
  const held = h("div", {});
  show(h("h1", {}, "The chain"),
    h("p", {}, "Messages flow from left to right, credit from right to left. Red: who waits, and for whom."),
    picture, h("h2", {}, "Held up now"), held);
  watch({ "sluicemq/chain": (found) => draw(found, picture, held) });
}

function draw({ stages, links }, picture, held) {
  const kinds = new Map(COLUMNS.map(([kind], column) => [kind, column]));
  const columns = COLUMNS.map(() => []);
  for (const stage of stages) {
    const column = kinds.get(stage.kind) ?? kinds.get(stage.kind.replace(" ", "_")) ?? 3;
    columns[column].push(stage);
  }
  const places = new Map();
  const boxes = [];
  columns.forEach((column, at) => {
    column.sort((one, other) => other.blocked_ms - one.blocked_ms || other.inbox - one.inbox || one.id.localeCompare(other.id));
    const x = 10 + at * ((WIDTH - BOX.width - 20) / (COLUMNS.length - 1));
    boxes.push(svg("text", { x, y: 18 }, `${COLUMNS[at][1]} (${column.length})`));
    column.slice(0, SHOWN).forEach((stage, row) => {
      const y = BOX.top + row * (BOX.height + BOX.gap);
      places.set(stage.id, { x, y });
      boxes.push(box(stage, x, y));
    });
    if (column.length > SHOWN) boxes.push(svg("text", { x, y: BOX.top + SHOWN * (BOX.height + BOX.gap) + 12 }, `and ${column.length - SHOWN} more`));
  });
  const lines = links.filter((link) => places.has(link.sender) && places.has(link.receiver)).map((link) => {
    const from = places.get(link.sender);
    const to = places.get(link.receiver);
    const line = svg("line", { x1: from.x + BOX.width, y1: from.y + BOX.height / 2, x2: to.x, y2: to.y + BOX.height / 2 });
    if (link.shut) line.setAttribute("class", "shut");
    return line;
  });
  const rows = Math.min(SHOWN + 1, Math.max(1, ...columns.map((column) => column.length)));
  const height = BOX.top + rows * (BOX.height + BOX.gap) + 10;
  picture.replaceChildren(svg("svg", { class: "chain", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "The flow control chain" }, ...lines, ...boxes));
  const shut = links.filter((link) => link.shut).sort((one, other) => other.blocked_ms - one.blocked_ms);
  held.replaceChildren(shut.length
    ? table(["Who waits", "For whom", "For how long"], shut.slice(0, 50).map((link) => [link.sender, link.receiver, `${number(link.blocked_ms / 1000)} s`]))
    : h("p", { class: "good" }, "Nobody is held up."));
}

function box(stage, x, y) {
  const name = stage.name.length > 26 ? `${stage.name.slice(0, 25)}…` : stage.name;
  const words = stage.blocked_ms ? `held up for ${number(stage.blocked_ms / 1000)} s` : `${stage.state}, ${number(stage.inbox)} waiting`;
  const drawn = svg("g", stage.blocked_ms ? { class: "held" } : {},
    svg("rect", { x, y, width: BOX.width, height: BOX.height, rx: 5 }),
    svg("text", { x: x + 7, y: y + 14 }, name),
    svg("text", { x: x + 7, y: y + 28, opacity: 0.75 }, words));
  drawn.append(svg("title", {}, `${stage.id}: ${stage.state}`));
  return drawn;
}
