  // What the page is given, and numbers in words, as formats.py writes them.

  const data = JSON.parse(document.getElementById("data").textContent);
  const NOTHING = "–";

  const whole = (value) => Math.round(value).toLocaleString("en-US");

  function duration(ms) {
    if (ms >= 60000) return `${(ms / 60000).toFixed(1)} min`;
    if (ms >= 999.5) return `${(ms / 1000).toFixed(1)} s`;
    return `${ms.toFixed(ms >= 9.95 ? 0 : ms >= 0.995 ? 1 : 2)} ms`;
  }

  const IN_WORDS = {
    "messages/s": (value) => `${whole(value)}/s`,
    "messages": whole,
    "latency": duration,
    "cores": (value) => value.toFixed(2),
    "MiB": (value) => `${whole(value / 2 ** 20)} MiB`,
    "connections": whole,
    "queues": whole,
  };

  // The seconds of each run, by its label, and of each of its nodes, by both.

  function secondsIn(table, keys) {
    const { columns, rows } = data.tables[table];
    const columnOf = new Map(columns.map((name, position) => [name, position]));
    const found = new Map();
    for (const row of rows) {
      const key = JSON.stringify(keys.map((name) => row[columnOf.get(name)]));
      if (!found.has(key)) found.set(key, []);
      found.get(key)[row[columnOf.get("second")]] = row;
    }
    const of = (...key) => found.get(JSON.stringify(key)) ?? [];
    return { of, figure: (row, column) => (row === undefined ? null : row[columnOf.get(column)]) };
  }

  const bySecond = secondsIn("per_second", ["run"]);
  const byNode = secondsIn("per_node", ["run", "node"]);

  function figureOf({ run, node, column }, second) {
    const table = node === undefined ? bySecond : byNode;
    return table.figure(table.of(run.label, ...(node === undefined ? [] : [node]))[second], column);
  }
