// The overview: totals, rates, what is queued and under way, the nodes.

import { get, here, watch } from "../api.js";
import { Chart, history } from "../charts.js";
import { h, number, redraw, show, tile } from "../dom.js";
import { nodeTable } from "./nodes.js";

const SPAN = "lengths_age=600&lengths_incr=5&msg_rates_age=600&msg_rates_incr=5";
const QUEUED = ["messages_ready", "messages_unacknowledged", "messages_unconfirmed", "messages"];
const RATES = ["publish", "confirm", "deliver_get", "ack", "redeliver"];

export async function overview() {
  const isHere = here();
  const tiles = h("div", { class: "tiles" });
  const nodes = h("div", {});
  const queued = new Chart("Messages in queues and under way", ["ready", "unacked", "unconfirmed", "total"]);
  const rates = new Chart("Messages a second", RATES);
  const title = h("h1", {}, "Overview");
  show(title, tiles, h("div", { class: "charts" }, queued.place, rates.place), h("h2", {}, "Nodes"), nodes);
  const past = await get(`overview?${SPAN}`);
  const totals = past.queue_totals;
  history(queued, QUEUED.map((name) => totals[`${name}_details`]), false);
  history(rates, RATES.map((name) => past.message_stats[`${name}_details`]), true);
  const handlers = { overview: (found) => drawOverview(found, title, tiles, queued, rates) };
  const { tags } = await get("whoami");
  if (tags.some((tag) => tag === "monitoring" || tag === "administrator")) handlers.nodes = (found) => redraw(nodes, nodeTable(found));
  if (isHere()) watch(handlers);
}

function drawOverview(found, title, tiles, queued, rates) {
  const { queue_totals: totals, object_totals: objects, message_stats: stats } = found;
  title.textContent = `Overview of ${found.cluster_name}`;
  tiles.replaceChildren(
    tile("ready", number(totals.messages_ready)),
    tile("unacknowledged", number(totals.messages_unacknowledged)),
    tile("unconfirmed", number(totals.messages_unconfirmed)),
    tile("published a second", number(stats.publish_details?.rate ?? 0)),
    tile("delivered a second", number(stats.deliver_get_details?.rate ?? 0)),
    ...Object.entries(objects).map(([name, count]) => tile(name, number(count))),
  );
  const now = Date.now() / 1000;
  queued.add(now, QUEUED.map((name) => totals[name]));
  rates.add(now, RATES.map((name) => stats[`${name}_details`]?.rate));
  queued.draw();
  rates.draw();
}
