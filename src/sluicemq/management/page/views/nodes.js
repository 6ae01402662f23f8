// The nodes: how far each is from its limits, where its memory is, what it reads, writes and syncs.

import { get, here, part, watch } from "../api.js";
import { Chart, history } from "../charts.js";
import { bytes, h, number, redraw, show, table } from "../dom.js";

const SPAN = "node_stats_age=600&node_stats_incr=5";
const IO = [["read", "Reads"], ["write", "Writes"], ["sync", "Syncs"], ["seek", "Seeks"], ["reopen", "Reopened files"]];
const MIB = 2 ** 20;

export async function nodes(name) {
  const isHere = here();
  const list = h("div", {});
  const memory = new Chart("Memory of the broker, MiB", ["used", "limit"], true);
  const disk = new Chart("Free on the disk, MiB", ["free", "limit"], true);
  const breakdown = h("div", {});
  const io = h("div", {});
  const title = h("h2", {}, "");
  show(h("h1", {}, "Nodes"), list, title, h("div", { class: "charts" }, memory.place, disk.place),
    h("h2", {}, "What takes the memory"), breakdown, h("h2", {}, "Files"), io);
  const chosen = (found) => found.find((node) => node.name === name) ?? found[0];
  const first = chosen(await get(`nodes?${SPAN}`));
  if (!isHere()) return;
  title.textContent = first.name;
  history(memory, [first.mem_used_details], false, (used) => [used / MIB, first.mem_limit / MIB]);
  history(disk, [first.disk_free_details], false, (free) => [free / MIB, first.disk_free_limit / MIB]);
  watch({
    nodes: (found) => {
      redraw(list, nodeTable(found));
      const node = chosen(found);
      if (node.mem_used === undefined) return;
      drawFiles(node, io);
      limited(memory, node.mem_used, node.mem_limit, node.mem_alarm);
      limited(disk, node.disk_free, node.disk_free_limit, node.disk_free_alarm);
    },
    [`nodes/${part(first.name)}/memory`]: (found) => drawMemory(found.memory, breakdown),
  });
}

function limited(chart, value, limit, isAlarm) {
  chart.place.classList.toggle("alarmed", isAlarm);
  chart.add(Date.now() / 1000, [value / MIB, limit / MIB]);
  chart.draw();
}

export function nodeTable(found) {
  const rows = found.map((node) => [
    found.length > 1 ? h("a", { href: `#/nodes/${part(node.name)}` }, node.name) : node.name,
    node.running ? h("span", { class: "good" }, "running") : h("span", { class: "alarm" }, "down"),
    ...(node.mem_used === undefined ? ["has told nothing yet", "", "", "", "", ""] : [
      gauge(bytes(node.mem_used), node.mem_used, node.mem_limit, node.mem_alarm, `of ${bytes(node.mem_limit)}`),
      gauge(bytes(node.disk_free), node.disk_free_limit, node.disk_free, node.disk_free_alarm, `at least ${bytes(node.disk_free_limit)}`),
      gauge(number(node.fd_used), node.fd_used, node.fd_total, false, `of ${number(node.fd_total)}`),
      gauge(number(node.sockets_used), node.sockets_used, node.sockets_total, false, `of ${number(node.sockets_total)}`),
      `${number(node.io_sync_count_details?.rate)}/s, ${number(node.io_sync_avg_time)} ms`,
      lasting(node.uptime)]),
  ]);
  return table(["Node", "State", "Memory", "Disk free", "Descriptors", "Connections", "Syncs", "Up for"], rows);
}

function gauge(text, value, most, isAlarm, words) {
  const bar = h("meter", { min: 0, max: Math.max(1, most), high: 0.8 * most, value, "aria-label": `${text} ${words}` });
  return h("span", isAlarm ? { class: "alarm" } : {}, isAlarm ? `${text} – ALARM` : text, bar, h("small", {}, words));
}

function lasting(milliseconds) {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes < 1) return "a moment";
  if (minutes < 60) return `${minutes} min`;
  return minutes < 1440 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

function drawMemory(memory, place) {
  const parts = Object.entries(memory).filter(([, size]) => typeof size === "number" && size > 0).sort((one, other) => other[1] - one[1]);
  const bar = h("div", { class: "parts", "aria-hidden": "true" }, parts.map(([name, size]) => {
    const piece = h("i", { title: name });
    piece.style.flexGrow = String(size);
    return piece;
  }));
  redraw(place, bar, table(["Part", "Size", "Share"], parts.map(([name, size]) => [name.replaceAll("_", " "), bytes(size), `${number((100 * size) / memory.total.rss)} %`])));
}

function drawFiles(node, place) {
  redraw(place, table(["What", "Each second", "Bytes each second", "Takes on average", "Since the start"], IO.map(([kind, title]) => {
    const volume = node[`io_${kind}_bytes_details`]?.rate;
    const time = node[`io_${kind}_avg_time`];
    return [title, number(node[`io_${kind}_count_details`]?.rate), volume === undefined ? "" : bytes(volume), time === undefined ? "" : `${number(time)} ms`, number(node[`io_${kind}_count`])];
  })));
}
