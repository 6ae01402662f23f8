// The page: who is logged in, and which view is shown, by what stands behind the # of the address.

import { begin, hangUp, request, whenLoggedOut } from "./api.js";
import { field, h, say, show } from "./dom.js";
import { admin } from "./views/admin.js";
import { chain } from "./views/chain.js";
import { channels, connections, exchanges, queues, streams } from "./views/lists.js";
import { nodes } from "./views/nodes.js";
import { overview } from "./views/overview.js";
import { queue } from "./views/queue.js";

const VIEWS = { overview, chain, nodes, connections, channels, exchanges, queues, queue, streams, admin };
const MENU = Object.keys(VIEWS).filter((name) => name !== "queue");
const TAGS = { admin: ["administrator"], nodes: ["administrator", "monitoring"], chain: ["administrator", "monitoring"] };
let user = null;

function header(current) {
  const place = document.getElementById("header");
  if (user === null) {
    place.replaceChildren(h("strong", {}, "SluiceMQ"));
    return;
  }
  const links = MENU.filter((name) => (TAGS[name] ?? user.tags).some((tag) => user.tags.includes(tag))).map((name) => {
    const link = h("a", { href: `#/${name}` }, name);
    if (name === current) link.setAttribute("aria-current", "page");
    return link;
  });
  place.replaceChildren(
    h("strong", {}, "SluiceMQ"),
    h("nav", { "aria-label": "Views" }, links),
    h("span", {}, user.name),
    h("button", { type: "button", onclick: logOut }, "Log out"),
  );
}

function showLogin() {
  hangUp();
  user = null;
  header("");
  const name = h("input", { name: "username", autocomplete: "username", required: true });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const logIn = async (event) => {
    event.preventDefault();
    say("");
    try {
      user = await request("POST", "/session", { name: name.value, password: password.value });
      route();
    } catch (error) {
      say(error.message);
    }
  };
  const button = h("button", { class: "main", type: "submit" }, "Log in");
  show(
    h("section", { class: "login" },
      h("h1", {}, "Log in"),
      h("form", { onsubmit: logIn }, field("User", name), field("Password", password), button)),
  );
  name.focus();
}

async function logOut() {
  await request("DELETE", "/session");
  showLogin();
}

function route() {
  if (user === null) return;
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const view = VIEWS[name] ?? overview;
  say("");
  begin();
  header(name === "queue" ? "queues" : (VIEWS[name] ? name : "overview"));
  Promise.resolve(view(...rest.map(decodeURIComponent))).catch((error) => say(error.message));
  document.getElementById("main").focus({ preventScroll: true });
}

whenLoggedOut(showLogin);
window.addEventListener("hashchange", route);
try {
  user = await request("GET", "/api/whoami");
  route();
} catch {
  showLogin();
}
