// The chain at first sight: what stands between publishers and the disk, who waits for whom, since when.

import { watch } from "../api.js";
import { h, number, redraw, show, svg, table } from "../dom.js";

const LANE = [["reader", "readers", "take what clients send"], ["channel", "channels", "route messages"],
  ["queue", "queues", "keep messages"], ["message_store", "Store", "writes messages"], ["disk", "Disk", "syncs"]];
const COLUMNS = [["reader", "Readers"], ["channel", "Channels"], ["queue", "Queues"], ["beyond", "Store, and what else holds up"]];
const WORDS = { reader: "connection", message_store: "the", writer: "the client of", disk: "the", pacer: "the", alarm: "the" };
const SHOWN = 12;
const IDLE_SHOWN = 3;
const WIDTH = 1100;
const LETTERS = 29;
const BOX = { width: 220, height: 40, gap: 10, top: 34, line: 14 };
const DETOUR = { y: 26, x: 14 };
const LINES_MAX = 4;

export function chain() {
  const parts = { verdict: h("p", { class: "verdict", role: "status" }), lane: h("ol", { class: "lane" }), picture: h("div", { class: "wide" }), held: h("div", {}) };
  show(h("h1", {}, "The chain"), parts.verdict, parts.lane,
    h("h2", {}, "Held up now"), parts.held,
    h("section", { class: "wide" }, h("h2", {}, "Who sends to whom"),
      h("p", {}, "Messages go from left to right. A bar is the credit that is left; a red line is a gate that is shut."), parts.picture));
  watch({ "sluicemq/chain": (found) => draw(found, parts) });
}

function draw(found, parts) {
  const stages = found.stages.map((stage) => ({ ...stage, kind: stage.kind.replace(" ", "_") }));
  const byId = new Map(stages.map((stage) => [stage.id, stage]));
  const shut = found.links.filter((link) => link.shut).sort((one, other) => other.blocked_ms - one.blocked_ms);
  const holding = new Map();
  shut.forEach((link) => { if (!holding.has(link.sender)) holding.set(link.sender, link); });
  drawVerdict(stages, holding, byId, parts.verdict);
  parts.lane.replaceChildren(...LANE.map(([kind, title, does]) => post(kind, title, does, stages, holding)));
  drawPicture(stages, byId, found.links, holding, parts.picture);
  const rows = shut.slice(0, 50).map((link) => [called(byId, link.sender), called(byId, link.receiver), seconds(link.blocked_ms)]);
  redraw(parts.held, shut.length ? table(["Who waits", "For whom", "For how long"], rows) : h("p", { class: "good" }, "Nobody."));
}

function drawVerdict(stages, holding, byId, place) {
  const groups = new Map();
  for (const stage of stages) {
    if (stage.kind !== "reader" || !holding.has(stage.id)) continue;
    const link = holding.get(stage.id);
    const root = cause(stage.id, holding);
    const group = groups.get(root) ?? { count: 0, longest: 0 };
    groups.set(root, { count: group.count + 1, longest: Math.max(group.longest, link.blocked_ms) });
  }
  const slowed = stages.filter((stage) => stage.kind === "reader" && stage.state === "flow").length;
  const sentences = [...groups].map(([root, { count, longest }]) =>
    `${count} ${count === 1 ? "publisher waits" : "publishers wait"} for ${called(byId, root)}, for ${seconds(longest)} now${reason(byId.get(root))}.`);
  place.className = `verdict ${groups.size ? "alarm" : (slowed ? "flow" : "good")}`;
  if (!sentences.length) sentences.push(slowed ? `Nobody waits now; ${slowed} ${slowed === 1 ? "publisher was" : "publishers were"} slowed down a moment ago.` : "Nobody is held up.");
  const text = sentences.slice(0, 3).join(" ");
  if (place.textContent !== text) place.textContent = text;
}

function reason(stage) {
  return stage?.kind === "alarm" && stage.state ? `: ${stage.state}` : "";
}

function cause(id, holding) {
  // who is at the end of the shut gates; stages have an order, so there are no circles
  let at = id;
  for (let steps = 0; holding.has(at) && steps < 20; steps += 1) at = holding.get(at).receiver;
  return at;
}

function called(byId, id) {
  const stage = byId.get(id);
  if (stage === undefined) return id;
  return `${WORDS[stage.kind] ?? stage.kind} ${stage.name}`;
}

function seconds(milliseconds) {
  if (milliseconds < 10) return "a moment";
  return milliseconds < 1000 ? `${milliseconds} ms` : `${number(milliseconds / 1000)} s`;
}

function post(kind, title, does, stages, holding) {
  const own = stages.filter((stage) => stage.kind === kind);
  const waiting = own.filter((stage) => holding.has(stage.id) || stage.blocked_ms);
  const slowed = own.filter((stage) => stage.state === "flow").length;
  const inbox = own.reduce((sum, stage) => sum + stage.inbox, 0);
  const longest = Math.max(0, ...waiting.map((stage) => stage.blocked_ms));
  let [mood, words] = ["good", own.length || kind !== "disk" ? "free" : "keeps up"];
  if (kind === "disk" && own.length) [mood, words] = ["alarm", own[0].state];
  else if (waiting.length) [mood, words] = ["alarm", `${number(waiting.length)} held up, ${seconds(longest)}`];
  else if (slowed) [mood, words] = ["flow", `${number(slowed)} slowed down`];
  return h("li", { class: mood }, h("b", {}, kind === "disk" || kind === "message_store" ? title : `${number(own.length)} ${title}`),
    h("small", {}, does), h("span", { class: mood }, words), h("small", {}, `${number(inbox)} messages on the way`));
}

function drawPicture(stages, byId, links, holding, picture) {
  const kinds = new Map(COLUMNS.map(([kind], column) => [kind, column]));
  const linked = new Set(links.filter((link) => link.initial && byId.get(link.sender)?.kind !== "queue").flatMap((link) => [link.sender, link.receiver]));
  const receives = new Set(links.filter((link) => link.shut).map((link) => link.receiver));
  const credit = new Map();
  for (const link of links) {
    if (link.initial) credit.set(link.sender, Math.min(credit.get(link.sender) ?? 1, Math.max(0, link.credit / link.initial)));
  }
  const rank = (stage) => [holding.has(stage.id) || receives.has(stage.id), stage.state === "flow", stage.inbox > 0, linked.has(stage.id)].reduce((sum, is) => sum * 2 + Number(is), 0);
  const columns = COLUMNS.map(() => []);
  for (const stage of stages) {
    if (stage.kind === "writer" && !receives.has(stage.id)) continue;
    columns[kinds.get(stage.kind) ?? 3].push(stage);
  }
  const places = new Map();
  const boxes = [];
  let height = 0;
  columns.forEach((column, at) => {
    column.sort((one, other) => rank(other) - rank(one) || other.blocked_ms - one.blocked_ms || other.inbox - one.inbox || one.id.localeCompare(other.id));
    const x = 5 + at * ((WIDTH - BOX.width - 10) / (COLUMNS.length - 1));
    boxes.push(svg("text", { x, y: 18 }, `${COLUMNS[at][1]} (${column.length})`));
    const busy = column.filter((stage) => rank(stage));
    const shown = busy.length ? busy.slice(0, SHOWN) : column.slice(0, IDLE_SHOWN);
    let y = BOX.top;
    for (const stage of shown) {
      const words = wordsOf(stage, holding.get(stage.id));
      places.set(stage.id, { at, x, middle: y + (BOX.height + (words.length - 1) * BOX.line) / 2 });
      boxes.push(box(stage, x, y, words, holding.has(stage.id), credit.get(stage.id)));
      y += BOX.height + (words.length - 1) * BOX.line + BOX.gap;
    }
    const others = column.length - shown.length;
    if (others) boxes.push(svg("text", { x, y: y + 12 }, `and ${number(others)} with less to do`));
    height = Math.max(height, y + (others ? 20 : 0));
  });
  const lines = links.filter((link) => places.has(link.sender) && places.has(link.receiver)).map((link) => {
    const from = places.get(link.sender);
    const to = places.get(link.receiver);
    const [x1, x2] = from.at === to.at ? [from.x, to.x] : [from.x + BOX.width, to.x];
    const [turn, back] = [x1 + DETOUR.x, x2 - DETOUR.x];
    // what goes past other columns goes above their boxes, for it has nothing to do with these
    const detour = to.at - from.at > 1 ? [[turn, from.middle], [turn, DETOUR.y], [back, DETOUR.y], [back, to.middle]] : [];
    const points = [[x1, from.middle], ...detour, [x2, to.middle]].join(" ");
    const line = svg("polyline", { points });
    if (link.shut) line.setAttribute("class", "shut");
    return line;
  });
  picture.replaceChildren(svg("svg", { class: "chain", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "Readers, channels, queues and store, with the credit between them" }, ...lines, ...boxes));
}

function wordsOf(stage, link) {
  if (link) return [`waits for ${seconds(link.blocked_ms)}, ${number(stage.inbox)} on the way`];
  const before = stage.blocked_total_ms >= 10 ? `, was held up ${seconds(stage.blocked_total_ms)}` : "";
  const lines = [""];
  for (const word of `${stage.state}${before}`.split(" ")) {
    const last = lines.length - 1;
    if (lines[last] && lines[last].length + word.length >= LETTERS) lines.push(word);
    else lines[last] = lines[last] ? `${lines[last]} ${word}` : word;
  }
  return lines.slice(0, LINES_MAX);
}

function box(stage, x, y, words, isHeld, credit) {
  // what is within an svg of its own never reaches beyond its edge, however wide the letters are
  const mood = isHeld ? "held" : (stage.kind === "alarm" ? "alarmed" : (stage.state === "flow" ? "slowed" : ""));
  const height = BOX.height + (words.length - 1) * BOX.line;
  const name = stage.name.length > LETTERS ? `${stage.name.slice(0, LETTERS - 1)}…` : stage.name;
  const drawn = svg("g", mood ? { class: mood } : {},
    svg("rect", { x, y, width: BOX.width, height, rx: 5 }),
    svg("svg", { x: x + 7, y, width: BOX.width - 14, height }, svg("text", { x: 0, y: 15 }, name),
      ...words.map((line, at) => svg("text", { x: 0, y: 29 + at * BOX.line, class: "soft" }, line))));
  if (credit !== undefined) drawn.append(svg("rect", { class: "credit", x: x + 7, y: y + height - 6, width: credit * (BOX.width - 14), height: 2.5 }));
  drawn.append(svg("title", {}, `${stage.id}: ${stage.state}`));
  return drawn;
}
