// Lists of connections, channels, exchanges, queues and streams: pages of 50 that the server sorts and filters.

import { part, request, watch } from "../api.js";
import { bytes, field, h, number, redraw, say, show } from "../dom.js";

function rate(row, name) {
  return number(row.message_stats?.[`${name}_details`]?.rate ?? 0);
}

function list(kind, title, columns, sort, more = null) {
  const wanted = { page: 1, sort, reverse: false, name: "" };
  const body = h("tbody", {});
  const pages = h("span", {});
  const filter = h("input", { type: "search", oninput: () => again({ name: filter.value, page: 1 }) });
  const again = (change) => {
    Object.assign(wanted, change);
    const query = `page=${wanted.page}&page_size=50&sort=${wanted.sort}&sort_reverse=${wanted.reverse}&name=${part(wanted.name)}`;
    watch({ [`${kind}?${query}`]: draw });
  };
  const draw = (found) => {
    redraw(body, ...found.items.map((row) => h("tr", {}, columns.map(([, , cell, is]) => h("td", { class: is ?? "" }, cell(row))))));
    pages.textContent = `page ${found.page} of ${found.page_count}, ${number(found.filtered_count)} of ${number(found.total_count)}`;
    wanted.page = Math.min(wanted.page, found.page_count);
    wanted.pages = found.page_count;
  };
  const heads = columns.map(([text, key, , is]) => {
    const turn = () => again({ sort: key, reverse: wanted.sort === key && !wanted.reverse });
    return h("th", { scope: "col", class: is ?? "" }, key ? h("button", { type: "button", onclick: turn }, text) : text);
  });
  const step = (by) => () => again({ page: Math.max(1, Math.min(wanted.pages ?? 1, wanted.page + by)) });
  show(
    h("h1", {}, title),
    h("form", { onsubmit: (event) => event.preventDefault() },
      field("Name has", filter),
      h("div", { class: "pager" },
        h("button", { type: "button", onclick: step(-1), "aria-label": "Page before" }, "‹"), pages,
        h("button", { type: "button", onclick: step(1), "aria-label": "Next page" }, "›"))),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), body)),
    ...(more === null ? [] : [more]),
  );
  again({});
}

function state(row) {
  const kind = row.state === "running" ? "good" : (row.state === "flow" ? "flow" : "alarm");
  return h("span", { class: kind }, row.state ?? "");
}

export function connections() {
  const close = (row) => async () => {
    if (confirm(`Close ${row.name}?`)) await request("DELETE", `/api/connections/${part(row.name)}`).catch((error) => say(error.message));
  };
  list("connections", "Connections", [
    ["Name", "name", (row) => h("span", {}, row.name, h("br"), h("small", {}, row.user_provided_name ?? "")), "long"],
    ["Virtual host", "vhost", (row) => row.vhost, "wide"],
    ["User", "user", (row) => row.user, "wide"],
    ["State", "state", state],
    ["Node", "node", (row) => row.node, "wide"],
    ["TLS", "ssl", (row) => (row.ssl ? "yes" : "no"), "wide"],
    ["Channels", "channels", (row) => number(row.channels), "number"],
    ["From client", "recv_oct_details.rate", (row) => `${bytes(row.recv_oct_details.rate)}/s`, "number"],
    ["To client", "send_oct_details.rate", (row) => `${bytes(row.send_oct_details.rate)}/s`, "number"],
    ["", "", (row) => h("button", { type: "button", class: "danger", onclick: close(row), "aria-label": `Close ${row.name}` }, "Close")],
  ], "name");
}

export function channels() {
  list("channels", "Channels", [
    ["Name", "name", (row) => row.name, "long"],
    ["Virtual host", "vhost", (row) => row.vhost, "wide"],
    ["User", "user", (row) => row.user, "wide"],
    ["State", "state", state],
    ["Unconfirmed", "messages_unconfirmed", (row) => number(row.messages_unconfirmed), "number"],
    ["Unacked", "messages_unacknowledged", (row) => number(row.messages_unacknowledged), "number"],
    ["Prefetch", "prefetch_count", (row) => number(row.prefetch_count), "number"],
    ["Published/s", "message_stats.publish_details.rate", (row) => rate(row, "publish"), "number"],
    ["Delivered/s", "message_stats.deliver_get_details.rate", (row) => rate(row, "deliver_get"), "number"],
    ["Acked/s", "message_stats.ack_details.rate", (row) => rate(row, "ack"), "number"],
  ], "name");
}

export function exchanges() {
  list("exchanges", "Exchanges", [
    ["Virtual host", "vhost", (row) => row.vhost, "wide"],
    ["Name", "name", (row) => row.name || "(default)"],
    ["Type", "type", (row) => row.type],
    ["Features", "", (row) => ["durable", "auto_delete", "internal"].filter((name) => row[name]).join(" ")],
    ["In/s", "message_stats.publish_in_details.rate", (row) => rate(row, "publish_in"), "number"],
    ["Out/s", "message_stats.publish_out_details.rate", (row) => rate(row, "publish_out"), "number"],
  ], "name");
}

export function queues() {
  const vhost = h("input", { value: "/", required: true });
  const name = h("input", { required: true });
  const type = h("select", {}, ["classic", "quorum", "stream"].map((each) => h("option", {}, each)));
  const declare = async (event) => {
    event.preventDefault();
    const body = { durable: true, arguments: { "x-queue-type": type.value } };
    await request("PUT", `/api/queues/${part(vhost.value)}/${part(name.value)}`, body)
      .then(() => say(`declared ${name.value}`)).catch((error) => say(error.message));
  };
  const form = h("form", { onsubmit: declare }, field("Virtual host", vhost), field("New queue", name),
    field("Type", type), h("button", { class: "main", type: "submit" }, "Declare"));
  list("queues", "Queues", [
    ["Virtual host", "vhost", (row) => row.vhost, "wide"],
    ["Name", "name", (row) => h("a", { href: `#/queue/${part(row.vhost)}/${part(row.name)}` }, row.name)],
    ["Type", "type", (row) => row.type, "wide"],
    ["Node", "node", (row) => row.node, "wide"],
    ["State", "state", state],
    ["Ready", "messages_ready", (row) => number(row.messages_ready), "number"],
    ["Unacked", "messages_unacknowledged", (row) => number(row.messages_unacknowledged), "number"],
    ["Published/s", "message_stats.publish_details.rate", (row) => rate(row, "publish"), "number"],
    ["Delivered/s", "message_stats.deliver_get_details.rate", (row) => rate(row, "deliver_get"), "number"],
    ["Consumers", "consumers", (row) => number(row.consumers), "number"],
  ], "name", h("section", {}, h("h2", {}, "Declare a queue"), form));
}

export function streams() {
  list("sluicemq/streams", "Streams", [
    ["Virtual host", "vhost", (row) => row.vhost, "wide"],
    ["Name", "name", (row) => h("a", { href: `#/queue/${part(row.vhost)}/${part(row.name)}` }, row.name)],
    ["State", "state", state],
    ["Messages", "messages", (row) => number(row.messages), "number"],
    ["Size", "message_bytes", (row) => bytes(row.message_bytes), "number"],
    ["Segments", "segments", (row) => number(row.segments), "number"],
    ["First offset", "first_offset", (row) => number(row.first_offset), "number"],
    ["Last offset", "committed_offset", (row) => number(row.committed_offset), "number"],
    ["Published/s", "message_stats.publish_details.rate", (row) => rate(row, "publish"), "number"],
    ["Delivered/s", "message_stats.deliver_get_details.rate", (row) => rate(row, "deliver_get"), "number"],
    ["Readers", "consumers", (row) => number(row.consumers), "number"],
  ], "name");
}
