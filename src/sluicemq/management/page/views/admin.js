// What administrators do: users, permissions, virtual hosts, policies, limits, definitions.

import { get, here, part, request } from "../api.js";
import { field, h, say, show, table } from "../dom.js";
import { limits } from "./limits.js";

export async function admin() {
  const isHere = here();
  const [users, permissions, vhosts, policies, vhostLimits, userLimits] = await Promise.all(
    ["users", "permissions", "vhosts", "policies", "vhost-limits", "user-limits"].map(get));
  if (!isHere()) return;
  const remove = (path, what) => h("button", { type: "button", class: "danger", onclick: async () => {
    if (confirm(`Delete ${what}?`)) await act("DELETE", path).catch((error) => say(error.message));
  }, "aria-label": `Delete ${what}` }, "Delete");
  show(
    h("h1", {}, "Admin"),
    h("h2", {}, "Users"),
    table(["Name", "Tags", ""], users.map((user) => [user.name, user.tags.join(", "), remove(`users/${part(user.name)}`, user.name)])),
    form("Set user", { name: "text", password: "password", tags: "text" },
      (given) => act("PUT", `users/${part(given.name)}`, given.password ? { password: given.password, tags: given.tags } : { tags: given.tags })),
    h("h2", {}, "Permissions"),
    table(["User", "Virtual host", "Configure", "Write", "Read", ""], permissions.map((row) => [row.user, row.vhost, row.configure, row.write, row.read, remove(`permissions/${part(row.vhost)}/${part(row.user)}`, `the permissions of ${row.user}`)])),
    form("Set permissions", { user: "text", vhost: "text", configure: "text", write: "text", read: "text" },
      ({ user, vhost, ...patterns }) => act("PUT", `permissions/${part(vhost)}/${part(user)}`, patterns)),
    h("h2", {}, "Virtual hosts"),
    table(["Name", "Description", "Messages", ""], vhosts.map((row) => [row.name, row.description, String(row.messages), remove(`vhosts/${part(row.name)}`, `${row.name} with all that is in it`)])),
    form("Add virtual host", { name: "text", description: "text" },
      ({ name, description }) => act("PUT", `vhosts/${part(name)}`, { description })),
    h("h2", {}, "Policies"),
    policies.length === 0 ? h("p", {}, "None are set.") : table(["Virtual host", "Name", "Pattern", "Apply to", "Definition", "Priority", ""], policies.map((row) => [row.vhost, row.name, row.pattern, row["apply-to"], JSON.stringify(row.definition), String(row.priority), remove(`policies/${part(row.vhost)}/${part(row.name)}`, row.name)])),
    form("Set policy", { vhost: "text", name: "text", pattern: "text", definition: "text" },
      ({ vhost, name, pattern, definition }) => act("PUT", `policies/${part(vhost)}/${part(name)}`, { pattern, definition: JSON.parse(definition) })),
    ...limits({ vhost: vhostLimits, user: userLimits }, act, remove, form),
    h("h2", {}, "Definitions"),
    definitions(),
  );
}

async function act(method, path, body) {
  await request(method, `/api/${path}`, body);
  await admin();
}

function form(title, fields, work) {
  const inputs = Object.entries(fields).map(([name, type]) => [name, Array.isArray(type)
    ? h("select", { name }, type.map((each) => h("option", {}, each)))
    : h("input", { type, name, autocomplete: type === "password" ? "new-password" : "off" })]);
  const submit = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(inputs.map(([name, input]) => [name, input.value]));
    try {
      await work(given);
    } catch (error) {
      say(error.message);
    }
  };
  return h("form", { onsubmit: submit }, inputs.map(([name, input]) => field(name, input)), h("button", { class: "main", type: "submit" }, title));
}

function definitions() {
  const text = h("textarea", { rows: 6, cols: 60, "aria-label": "Definitions, JSON" });
  const run = (query) => async () => {
    try {
      const told = await request("POST", `/api/definitions${query}`, JSON.parse(text.value));
      text.value = query ? JSON.stringify(told, null, 1) : text.value;
      say(query ? "this would change" : "imported");
    } catch (error) {
      say(error.message);
    }
  };
  return h("div", {}, text, h("form", { onsubmit: (event) => event.preventDefault() },
    h("button", { type: "button", onclick: async () => { text.value = JSON.stringify(await get("definitions"), null, 1); } }, "Export"),
    h("button", { type: "button", onclick: run("?dry_run=true") }, "Dry run"),
    h("button", { type: "button", class: "danger", onclick: run("") }, "Import")));
}
