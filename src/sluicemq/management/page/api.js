// Talks to the management process: requests, and live updates over one WebSocket.

const OWN = { "X-SluiceMQ-Page": "1" };
let onLoggedOut = () => {};
let socket = null;
let watching = {};
let isFailing = false;
let visit = 0;

export class Refused extends Error {}

export function whenLoggedOut(handler) {
  onLoggedOut = handler;
}

export async function request(method, path, body) {
  const headers = { ...OWN };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method, headers, credentials: "same-origin" };
  if (body !== undefined) options.body = JSON.stringify(body);
  const answer = await fetch(path, options);
  const text = await answer.text();
  const content = text ? JSON.parse(text) : null;
  if (answer.ok) return content;
  if (answer.status === 401 && content.reason === "Login failed" && path !== "/session") onLoggedOut();
  throw new Refused(content?.reason ?? `HTTP ${answer.status}`);
}

export const get = (path) => request("GET", `/api/${path}`);
export const part = encodeURIComponent;

export function begin() {
  // A view is left: what it still has to show is not shown.
  visit += 1;
  watch({});
}

export function here() {
  // Tells, later, whether the view that is begun now is still the one that is shown.
  const own = visit;
  return () => own === visit;
}

export function watch(handlers) {
  // handlers: path -> function that is given the answer whenever it has changed
  watching = handlers;
  if (socket !== null && socket.readyState === WebSocket.OPEN) tell();
  else connect();
}

function tell() {
  socket.send(JSON.stringify({ watch: Object.keys(watching) }));
}

function connect() {
  if (socket !== null && socket.readyState === WebSocket.CONNECTING) return;
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const opened = new WebSocket(`${scheme}://${location.host}/live`);
  socket = opened;
  opened.onopen = tell;
  opened.onmessage = (message) => {
    const { path, answer, error } = JSON.parse(message.data);
    const handler = watching[path];
    if (handler === undefined) return;
    if (error !== undefined || isFailing) document.getElementById("status").textContent = error ?? "";
    isFailing = error !== undefined;
    if (answer !== undefined) handler(answer);
  };
  opened.onclose = (event) => {
    if (socket !== opened) return;
    socket = null;
    if (event.code === 4401) onLoggedOut();
    else setTimeout(connect, 2000);
  };
}

export function hangUp() {
  const open = socket;
  socket = null;
  watching = {};
  visit += 1;
  if (open !== null) open.close();
}
