// The leaderboard: sorts, filters, turns pages and opens rows. Text reaches the page as text nodes and attributes alone.
"use strict";

const brought = JSON.parse(document.getElementById("data").textContent);

const leaderboard = (() => {
  const { rows, rowsShown, runs } = brought;
  const table = document.getElementById("trials-table");
  if (!table) return { about(id) { return id; }, find() {}, update() {}, size() { return 0; } };

  const PARAMETER = "parameter ";
  const headers = [...table.tHead.rows[0].cells];
  const columns = headers.map((cell, index) => ({
    cell, index, key: cell.dataset.key, heading: cell.textContent.trim(), off: "off" in cell.dataset,
    isParameter: cell.dataset.key.startsWith(PARAMETER),
  }));
  const place = (key) => columns.findIndex((column) => column.key === key);
  const find = document.getElementById("find");
  const byStudy = document.getElementById("by-study");
  const byState = document.getElementById("by-state");
  const choices = document.querySelector("#choose .choices");
  const count = document.getElementById("count");
  const previous = document.getElementById("previous");
  const next = document.getElementById("next");
  const state = { column: place("value"), descending: true, page: 0, open: new Set(), on: new Set() };

  // Made when somebody looks for something: of thousands of rows it takes longer than to show the first of them.
  function haystack(row) {
    row.haystack ??= searchable([...row.shown, ...row.details.flat()].join("\n"));
    return row.haystack;
  }

  // A keyboard has no U+2212.
  function searchable(text) {
    return text.toLowerCase().replaceAll("−", "-");
  }

  function compare(a, b) {
    const [x, y] = [a.sort[state.column], b.sort[state.column]];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "number" && typeof y === "number"
      ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return state.descending ? -order : order;
  }

  function chosen() {
    const words = searchable(find.value).split(/\s+/).filter(Boolean);
    return rows
      .filter((row) => !byStudy.value || row.study === byStudy.value)
      .filter((row) => !byState.value || row.state === byState.value)
      .filter((row) => words.every((word) => haystack(row).includes(word)))
      .sort(compare);
  }

  // Of one study all parameters are shown, and those of other studies are not.
  function isShown(column, found) {
    if (state.on.has(column.key) || column.index === state.column) return true;
    if (!column.isParameter || !byStudy.value) return !column.off;
    return found.some((row) => row.sort[column.index] !== null);
  }

  function element(name, attributes, ...children) {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...children);
    return made;
  }

  const pair = (name, ...value) => element("div", {}, element("dt", {}, name), element("dd", {}, ...value));

  function focusOn(trial) {
    [...table.querySelectorAll(".opener")].find((button) => button.dataset.trial === trial)?.focus();
  }

  function opener(row) {
    const looks = { className: "opener", type: "button", ariaExpanded: state.open.has(row) };
    const button = element("button", looks, row.shown[0]);
    button.dataset.trial = row.id;
    button.addEventListener("click", () => {
      if (!state.open.delete(row)) state.open.add(row);
      draw();
      focusOn(row.id);
    });
    return button;
  }

  function line(row, shown) {
    const cells = shown.map(({ cell: { className }, index }) => (
      element("td", { className }, index ? row.shown[index] : opener(row))
    ));
    return element("tr", { className: `row ${row.state}` }, ...cells);
  }

  // The run of a trial in MLflow: an address is made of a known server and an id of letters and digits alone.
  function runLink(row) {
    const run = runs?.trials[row.id];
    if (!run || !/^https?:\/\//.test(runs.server) || !/^\w+$/.test(`${runs.experiment}${run}`)) return [];
    const href = `${runs.server.replace(/\/+$/, "")}/#/experiments/${runs.experiment}/runs/${run}`;
    const link = element("a", { href, rel: "noreferrer noopener", target: "_blank" }, "its run");
    return [pair("MLflow", link, runs.note ? ` ${runs.note}` : "")];
  }

  function details(row, width) {
    const facts = [...row.details, ...columns.slice(1).map(({ heading, index }) => [heading, row.shown[index]])];
    const known = facts.filter(([, text]) => text && text !== "–");
    const list = element("dl", { className: "statistics" }, ...runLink(row), ...known.map((fact) => pair(...fact)));
    return element("tr", { className: "details" }, element("td", { colSpan: width }, list));
  }

  function draw() {
    const found = chosen();
    const pages = Math.max(1, Math.ceil(found.length / rowsShown));
    state.page = Math.min(state.page, pages - 1);
    const first = state.page * rowsShown;
    const page = found.slice(first, first + rowsShown);
    const shown = columns.filter((column) => isShown(column, found));
    table.tBodies[0].replaceChildren(
      ...page.flatMap((row) => (state.open.has(row) ? [line(row, shown), details(row, shown.length)] : [line(row, shown)])),
    );
    for (const column of columns) {
      column.cell.hidden = !shown.includes(column);
      column.cell.ariaSort = column.index === state.column ? (state.descending ? "descending" : "ascending") : null;
    }
    const range = pages > 1 ? `${first + 1}–${first + page.length} of ` : "";
    const all = found.length === rows.length ? "" : `, ${rows.length.toLocaleString("en")} in all`;
    count.textContent = `${range}${found.length.toLocaleString("en")} ${found.length === 1 ? "trial" : "trials"}${all}`;
    previous.disabled = state.page === 0;
    next.disabled = state.page === pages - 1;
  }

  // The address keeps what is shown, so that a link or a reload shows the same.
  const controls = { find, study: byStudy, state: byState };

  function keep() {
    const address = new URL(location.href);
    const isFirst = state.column === place("value") && state.descending;
    const kept = {
      ...Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, control.value])),
      sort: isFirst ? "" : `${state.descending ? "-" : ""}${columns[state.column].key}`,
      columns: state.on.size ? JSON.stringify([...state.on]) : "",
    };
    for (const [name, value] of Object.entries(kept)) {
      if (value) address.searchParams.set(name, value);
      else address.searchParams.delete(name);
    }
    if (address.href !== location.href) history.replaceState(history.state, "", address);
  }

  function restore() {
    const kept = new URLSearchParams(location.search);
    for (const [name, control] of Object.entries(controls)) {
      control.value = kept.get(name) ?? "";
      // An address may name a study or a column that a newer page no longer has.
      if (control.selectedIndex < 0) control.value = "";
    }
    const sort = kept.get("sort") ?? "";
    const column = place(sort.replace(/^-/, ""));
    if (column >= 0) Object.assign(state, { column, descending: sort.startsWith("-") });
    try {
      state.on = new Set(JSON.parse(kept.get("columns") ?? "[]").filter((key) => place(key) >= 0));
    } catch {
      // An address that somebody cut short shows the columns that are shown at first.
    }
    for (const box of choices.querySelectorAll("input")) box.checked = state.on.has(box.value);
  }

  function refilter() {
    state.page = 0;
    keep();
    draw();
  }

  function fill(select, values) {
    const there = new Set([...select.options].map((option) => option.value));
    for (const value of new Set(values)) {
      if (!there.has(value)) select.append(element("option", { value }, value.replaceAll("_", " ")));
    }
  }

  function sortBy(column, button) {
    const first = "numeric" in button.dataset;
    state.descending = column.index === state.column ? !state.descending : first;
    state.column = column.index;
    refilter();
  }

  for (const column of columns) {
    const button = column.cell.querySelector("button");
    button.addEventListener("click", () => sortBy(column, button));
    if (!column.off) continue;
    const box = element("input", { type: "checkbox", value: column.key });
    box.addEventListener("change", () => {
      if (box.checked) state.on.add(column.key);
      else state.on.delete(column.key);
      keep();
      draw();
    });
    choices.append(element("label", {}, box, column.heading));
  }
  document.getElementById("choose").hidden = !choices.children.length;
  previous.addEventListener("click", () => { state.page -= 1; draw(); });
  next.addEventListener("click", () => { state.page += 1; draw(); });
  for (const control of [find, byStudy, byState]) control.addEventListener("input", refilter);

  let begun = false;
  function begin() {
    fill(byStudy, rows.map((row) => row.study).sort());
    fill(byState, rows.map((row) => row.state).sort());
    if (!begun) restore();
    begun = true;
    document.querySelector(".tools").hidden = false;
    document.querySelector(".pager .buttons").hidden = rows.length <= rowsShown;
    const focused = document.activeElement?.dataset.trial;
    draw();
    if (focused) focusOn(focused);
  }

  // A live page brings its rows later, and keeps until then those that its HTML has.
  if (rows.length) begin();

  const byId = new Map();
  // A trial that repeats a setting has the row of the first trial with the setting.
  const know = (row) => [row.id, ...row.repeats].forEach((id) => byId.set(id, row));
  rows.forEach(know);
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  return {
    // Takes in rows that are new or have changed.
    update(changed) {
      for (const row of changed) {
        const known = byId.get(row.id);
        if (known) Object.assign(known, { haystack: null }, row);
        else rows.push(row);
        know(known ?? row);
      }
      if (changed.length) begin();
    },

    // How many trials there are.
    size() {
      return rows.length;
    },

    // What a chart shows of a trial under the pointer: name, state, parameters and value.
    about(id) {
      return byId.get(id)?.about ?? escaped(id);
    },

    // Shows one trial, opened; the charts call it with the id of a dot.
    find(id) {
      const row = byId.get(id);
      if (!row) return;
      byStudy.value = byState.value = "";
      find.value = row.id;
      state.open = new Set([row]);
      refilter();
      document.getElementById("leaderboard").scrollIntoView({ block: "start" });
    },
  };
})();
