// One queue: where its messages are, rates, consumers, bindings; publish, get, purge, delete.

import { get, here, part, request, watch } from "../api.js";
import { Chart, history } from "../charts.js";
import { bytes, field, h, number, redraw, say, show, table, tile } from "../dom.js";
import { PagingPicture } from "./paging.js";

const RATES = ["publish", "deliver_get", "ack", "redeliver"];

export async function queue(vhost, name) {
  const isHere = here();
  const path = `queues/${part(vhost)}/${part(name)}`;
  const queued = new Chart("Messages", ["ready", "unacked"]);
  const rates = new Chart("Messages a second", RATES);
  const tiles = h("div", { class: "tiles" });
  const paging = new PagingPicture();
  const where = h("section", {}, h("h2", {}, "Where the messages are"), paging.place);
  const consumers = h("div", {});
  const bindings = h("div", {});
  show(h("h1", {}, `Queue ${name} in ${vhost}`), tiles, where,
    h("div", { class: "charts" }, queued.place, rates.place), h("h2", {}, "Consumers"), consumers,
    h("h2", {}, "Bindings"), bindings, h("h2", {}, "Messages"), ...actions(path, vhost, name));
  const past = await get(`${path}?lengths_age=600&lengths_incr=5&msg_rates_age=600&msg_rates_incr=5`);
  history(queued, [past.messages_ready_details, past.messages_unacknowledged_details], false);
  history(rates, RATES.map((each) => past.message_stats?.[`${each}_details`]), true);
  if (!isHere()) return;
  where.hidden = past.backing_queue_status === undefined;
  watch({
    [path]: (found) => draw(found, tiles, paging, consumers, queued, rates),
    [`${path}/bindings`]: (found) => redraw(bindings,
      table(["From", "Routing key", "Arguments"], found.map((row) => [row.source || "(default)", row.routing_key, JSON.stringify(row.arguments)]))),
  });
}

function draw(found, tiles, paging, consumers, queued, rates) {
  const more = { quorum: [["leader", found.leader], ["members", found.members?.join(", ")], ["online", found.online?.join(", ")]],
    stream: [["segments", number(found.segments)], ["offsets", `${number(found.first_offset)} to ${number(found.committed_offset)}`]] };
  tiles.replaceChildren(
    tile("state", found.state), tile("type", found.type), tile("node", found.node), tile("ready", number(found.messages_ready)),
    tile("unacknowledged", number(found.messages_unacknowledged)), tile("consumers", number(found.consumers)),
    tile("memory", bytes(found.memory)), tile("policy", found.policy ?? "none"),
    ...(more[found.type] ?? []).map(([title, value]) => tile(title, value || "none")),
    tile("arguments", JSON.stringify(found.arguments)));
  if (found.backing_queue_status !== undefined) paging.update(found.backing_queue_status, found.message_stats);
  redraw(consumers, table(["Tag", "Channel", "Prefetch", "Acknowledges", "State"], found.consumer_details.map((each) => [
    each.consumer_tag, each.channel_details.name, number(each.prefetch_count), each.ack_required ? "yes" : "no", each.activity_status])));
  const now = Date.now() / 1000;
  queued.add(now, [found.messages_ready, found.messages_unacknowledged]);
  rates.add(now, RATES.map((each) => found.message_stats?.[`${each}_details`]?.rate));
  queued.draw();
  rates.draw();
}

function actions(path, vhost, name) {
  const payload = h("textarea", { rows: 2, cols: 40 });
  const count = h("input", { type: "number", min: 1, max: 100, value: 1 });
  const got = h("div", {});
  const does = (work) => async (event) => {
    event.preventDefault();
    await work().catch((error) => say(error.message));
  };
  const publish = does(async () => {
    const message = { routing_key: name, payload: payload.value, payload_encoding: "string", properties: { delivery_mode: 2 } };
    const { routed } = await request("POST", `/api/exchanges/${part(vhost)}/amq.default/publish`, message);
    say(routed ? "published" : "published, but not routed");
  });
  const fetchSome = does(async () => {
    const asked = { count: Number(count.value), ackmode: "ack_requeue_true", encoding: "auto", truncate: 50000 };
    const found = await request("POST", `/api/${path}/get`, asked);
    got.replaceChildren(...found.map((each) => h("div", { class: "tile" },
      h("span", {}, `${each.exchange || "(default)"} → ${each.routing_key}, ${number(each.payload_bytes)} bytes ${JSON.stringify(each.properties)}`),
      h("div", { class: "payload" }, each.payload))));
    if (!found.length) got.replaceChildren("The queue is empty.");
  });
  const purge = does(async () => {
    if (confirm(`Drop the ready messages of ${name}?`)) await request("DELETE", `/api/${path}/contents`);
  });
  const remove = does(async () => {
    if (!confirm(`Delete ${name} with its messages?`)) return;
    await request("DELETE", `/api/${path}`);
    location.hash = "#/queues";
  });
  return [
    h("form", { onsubmit: publish }, field("Payload", payload), h("button", { class: "main", type: "submit" }, "Publish")),
    h("form", { onsubmit: fetchSome }, field("Messages to look at (they go back)", count), h("button", { type: "submit" }, "Get")),
    got,
    h("form", { onsubmit: (event) => event.preventDefault() },
      h("button", { type: "button", class: "danger", onclick: purge }, "Purge"),
      h("button", { type: "button", class: "danger", onclick: remove }, "Delete")),
  ];
}
