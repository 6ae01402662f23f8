  // Tables as files.

  function csvField(value) {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  const FORMS = {
    csv: {
      type: "text/csv",
      text: (names, found) => [names, ...found].map((row) => row.map(csvField).join(",") + "\r\n").join(""),
    },
    json: {
      type: "application/json",
      text: (names, found) => {
        const named = found.map((row) => Object.fromEntries(row.map((value, position) => [names[position], value])));
        return `${JSON.stringify(named, null, 1)}\n`;
      },
    },
  };

  function handOut(name, run, form) {
    const table = data.tables[name];
    const found = run === undefined ? table.rows : table.rows.filter((row) => row[0] === run);
    const file = new Blob([FORMS[form].text(table.columns, found)], { type: FORMS[form].type });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = `${[name, run].filter(Boolean).join("-").replace(/[^\p{L}\p{N}.-]+/gu, "_")}.${form}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  for (const offer of document.querySelectorAll(".download")) {
    const run = offer.dataset.run === undefined ? undefined : data.runs[offer.dataset.run].label;
    for (const button of offer.querySelectorAll("button")) {
      button.addEventListener("click", () => handOut(offer.dataset.table, run, button.value));
    }
    offer.hidden = false;
  }
