// Builds elements. Whatever comes from the broker is text and never markup.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function show(...children) {
  document.getElementById("main").replaceChildren(...children);
}

export function redraw(place, ...children) {
  // Puts new children in the place of the old ones; who was on a link or button with the keyboard stays on it.
  const nameOf = (element) => element.getAttribute("href") ?? element.getAttribute("aria-label");
  const focused = place.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  place.replaceChildren(...children);
  if (focused !== null) [...place.querySelectorAll("a, button")].find((each) => nameOf(each) === focused)?.focus({ preventScroll: true });
}

export function say(text) {
  document.getElementById("status").textContent = text;
}

export function number(value) {
  if (value === undefined || value === null) return "–";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(1);
}

export function bytes(value) {
  let left = value ?? 0;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (left < 1024 || unit === "GiB") return `${left.toFixed(unit === "B" ? 0 : 1)} ${unit}`;
    left /= 1024;
  }
  return "";
}

export function tile(title, value, kind = "") {
  return h("div", { class: "tile" }, h("b", { class: kind }, value), h("span", {}, title));
}

export function table(headings, rows) {
  const head = h("tr", {}, headings.map((text) => h("th", { scope: "col" }, text)));
  const body = rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
}

export function field(title, input) {
  return h("label", {}, title, input);
}
