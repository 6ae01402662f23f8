// Limits of virtual hosts and of users: what is set, set one, take one away.

import { part } from "../api.js";
import { h, table } from "../dom.js";

const LIMITS = { "vhost": ["max-connections", "max-queues"], "user": ["max-connections", "max-channels"] };

export function limits(found, act, remove, form) {
  // found: kind -> rows of the API; act and remove change something; form makes a form
  return Object.entries(LIMITS).flatMap(([kind, names]) => {
    const title = kind === "vhost" ? "virtual host" : "user";
    const rows = found[kind].flatMap((row) => Object.entries(row.value).map(([limit, value]) =>
      [row[kind], limit, String(value), remove(`${kind}-limits/${part(row[kind])}/${part(limit)}`, `the limit ${limit} of ${row[kind]}`)]));
    return [
      h("h2", {}, `Limits of ${title}s`),
      rows.length ? table([title, "limit", "at most", ""], rows) : h("p", {}, "None are set."),
      form(`Set limit of ${title}`, { [kind]: "text", limit: names, value: "number" },
        (given) => act("PUT", `${kind}-limits/${part(given[kind])}/${part(given.limit)}`, { value: Number(given.value) })),
    ];
  });
}
