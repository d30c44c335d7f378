// The leaderboard: sorts, filters, turns pages and opens rows. Text reaches the page through textContent alone.
"use strict";

const leaderboard = (() => {
  const { rows, rowsShown } = brought;
  const table = document.getElementById("trials-table");
  if (!table) return { find() {}, update() {}, showStudy() {}, size() { return 0; } };

  const headers = [...table.tHead.rows[0].cells];
  const find = document.getElementById("find");
  const byStudy = document.getElementById("by-study");
  const byState = document.getElementById("by-state");
  const count = document.getElementById("count");
  const previous = document.getElementById("previous");
  const next = document.getElementById("next");
  const state = { column: headers.findIndex((cell) => cell.ariaSort), descending: true, page: 0, open: new Set() };

  // Made when somebody looks for something: of thousands of rows it takes longer than to show the first of them.
  function haystack(row) {
    row.haystack ??= [...row.shown, ...row.details.names, ...row.details.values].join("\n").toLowerCase();
    return row.haystack;
  }

  function compare(a, b) {
    const [x, y] = [a.sort[state.column], b.sort[state.column]];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return state.descending ? -order : order;
  }

  function chosen() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    return rows
      .filter((row) => !byStudy.value || row.study === byStudy.value)
      .filter((row) => !byState.value || row.state === byState.value)
      .filter((row) => words.every((word) => haystack(row).includes(word)))
      .sort(compare);
  }

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function opener(row) {
    const button = element("button", "opener", row.shown[0]);
    button.type = "button";
    button.dataset.trial = row.id;
    button.ariaExpanded = state.open.has(row);
    button.addEventListener("click", () => {
      if (!state.open.delete(row)) state.open.add(row);
      draw();
      [...table.querySelectorAll(".opener")].find((other) => other.dataset.trial === row.id)?.focus();
    });
    return button;
  }

  function line(row) {
    const made = element("tr", `row ${row.state}`);
    row.shown.forEach((text, index) => {
      const cell = element("td", headers[index].className, index ? text : undefined);
      if (!index) cell.append(opener(row));
      made.append(cell);
    });
    return made;
  }

  function details(row) {
    const made = element("tr", "details");
    const cell = element("td");
    cell.colSpan = headers.length;
    const list = element("dl", "statistics");
    row.details.names.forEach((name, index) => {
      const pair = element("div");
      pair.append(element("dt", "", name), element("dd", "", row.details.values[index]));
      list.append(pair);
    });
    cell.append(list);
    made.append(cell);
    return made;
  }

  function draw() {
    const found = chosen();
    const pages = Math.max(1, Math.ceil(found.length / rowsShown));
    state.page = Math.min(state.page, pages - 1);
    const first = state.page * rowsShown;
    const shown = found.slice(first, first + rowsShown);
    table.tBodies[0].replaceChildren(
      ...shown.flatMap((row) => (state.open.has(row) ? [line(row), details(row)] : [line(row)])),
    );
    headers.forEach((cell, index) => {
      cell.ariaSort = index === state.column ? (state.descending ? "descending" : "ascending") : null;
    });
    const range = pages > 1 ? `${first + 1}–${first + shown.length} of ` : "";
    const all = found.length === rows.length ? "" : `, ${rows.length.toLocaleString("en")} in all`;
    count.textContent = `${range}${found.length.toLocaleString("en")} ${found.length === 1 ? "trial" : "trials"}${all}`;
    previous.disabled = state.page === 0;
    next.disabled = state.page === pages - 1;
  }

  function refilter() {
    state.page = 0;
    draw();
  }

  function fill(select, values) {
    const there = new Set([...select.options].map((option) => option.value));
    for (const value of new Set(values)) {
      if (there.has(value)) continue;
      const option = element("option", "", value.replaceAll("_", " "));
      option.value = value;
      select.append(option);
    }
  }

  for (const cell of headers) {
    const button = cell.querySelector("button");
    button.addEventListener("click", () => {
      const column = Number(button.dataset.column);
      const first = "numeric" in button.dataset;
      state.descending = column === state.column ? !state.descending : first;
      state.column = column;
      refilter();
    });
  }
  previous.addEventListener("click", () => { state.page -= 1; draw(); });
  next.addEventListener("click", () => { state.page += 1; draw(); });
  for (const control of [find, byStudy, byState]) control.addEventListener("input", refilter);

  function begin() {
    fill(byStudy, rows.map((row) => row.study).sort());
    fill(byState, rows.map((row) => row.state).sort());
    document.querySelector(".tools").hidden = false;
    document.querySelector(".pager .buttons").hidden = rows.length <= rowsShown;
    const focused = document.activeElement?.dataset.trial;
    draw();
    if (focused) [...table.querySelectorAll(".opener")].find((other) => other.dataset.trial === focused)?.focus();
  }

  // A live page brings its rows later, and keeps until then those that its HTML has.
  if (rows.length) begin();

  return {
    // Takes in rows that are new or have changed.
    update(changed) {
      const known = new Map(rows.map((row) => [row.id, row]));
      for (const row of changed) {
        if (known.has(row.id)) Object.assign(known.get(row.id), { haystack: null }, row);
        else rows.push(row);
      }
      if (changed.length) begin();
    },

    // How many trials there are.
    size() {
      return rows.length;
    },

    // Shows the trials of one study.
    showStudy(label) {
      byStudy.value = label;
      byState.value = find.value = "";
      refilter();
    },

    // Shows one trial, opened; the charts call it with the id of a dot.
    find(id) {
      const row = rows.find((candidate) => candidate.id === id);
      if (!row) return;
      byStudy.value = byState.value = "";
      find.value = id;
      state.open = new Set([row]);
      refilter();
      document.getElementById("leaderboard").scrollIntoView({ block: "start" });
    },
  };
})();
