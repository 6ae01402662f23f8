// The overview: totals, rates, what is queued, memory and disk, alarms.

import { get, watch } from "../api.js";
import { Chart, history } from "../charts.js";
import { bytes, h, number, show, table, tile } from "../dom.js";

const SPAN = "lengths_age=600&lengths_incr=5&msg_rates_age=600&msg_rates_incr=5";
const RATES = ["publish", "confirm", "deliver_get", "ack", "redeliver"];

export async function overview() {
  const tiles = h("div", { class: "tiles" });
  const nodes = h("div", {});
  const queued = new Chart("Queued messages", ["ready", "unacked", "total"]);
  const rates = new Chart("Messages a second", RATES);
  const memory = new Chart("Memory of the broker, MiB", ["used", "limit"]);
  const title = h("h1", {}, "Overview");
  show(title, tiles, h("div", { class: "charts" }, queued.place, rates.place, memory.place), h("h2", {}, "Nodes"), nodes);
  const past = await get(`overview?${SPAN}`);
  const totals = past.queue_totals;
  history(queued, ["messages_ready_details", "messages_unacknowledged_details", "messages_details"].map((name) => totals[name]), false);
  history(rates, RATES.map((name) => past.message_stats[`${name}_details`]), true);
  watch({
    overview: (found) => drawOverview(found, title, tiles, queued, rates),
    nodes: (found) => drawNodes(found, nodes, memory),
  });
}

function drawOverview(found, title, tiles, queued, rates) {
  const { queue_totals: totals, object_totals: objects, message_stats: stats } = found;
  title.textContent = `Overview of ${found.cluster_name}`;
  tiles.replaceChildren(
    tile("ready", number(totals.messages_ready)),
    tile("unacknowledged", number(totals.messages_unacknowledged)),
    tile("published a second", number(stats.publish_details?.rate)),
    tile("delivered a second", number(stats.deliver_get_details?.rate)),
    ...Object.entries(objects).map(([name, count]) => tile(name, number(count))),
  );
  const now = Date.now() / 1000;
  queued.add(now, [totals.messages_ready, totals.messages_unacknowledged, totals.messages]);
  rates.add(now, RATES.map((name) => stats[`${name}_details`]?.rate));
  queued.draw();
  rates.draw();
}

function drawNodes(found, place, memory) {
  const rows = found.map((node) => [
    node.name,
    node.running ? h("span", { class: "good" }, "running") : h("span", { class: "alarm" }, "down"),
    alarmed(bytes(node.mem_used), node.mem_alarm, `limit ${bytes(node.mem_limit)}`),
    alarmed(bytes(node.disk_free), node.disk_free_alarm, `limit ${bytes(node.disk_free_limit)}`),
    number(node.fd_used),
    number(node.sockets_used),
    `${number(node.io_sync_count_details?.rate)} a second, ${number(node.io_sync_avg_time)} ms each`,
  ]);
  place.replaceChildren(table(["Node", "State", "Memory", "Disk free", "Descriptors", "Connections", "Syncs"], rows));
  const [own] = found;
  memory.add(Date.now() / 1000, [own.mem_used / 2 ** 20, own.mem_limit / 2 ** 20]);
  memory.draw();
}

function alarmed(text, raised, limit) {
  return h("span", raised ? { class: "alarm" } : {}, raised ? `${text} – ALARM` : text, h("br"), h("small", {}, limit));
}
