// The live page of an experiment: sections, rows and figures are replaced as the journal grows, and only what changed.
"use strict";

const watch = (() => {
  const SECTIONS = ["verdict", "queries", "cost", "reproduce"];
  const REST = 1000;
  const FEW = 200;
  const shown = new Map();
  let version = 0;
  let newest = 0;
  let busy = false;
  const stale = new Set();
  const visible = new Set();
  const rested = new Map();

  async function ask(path) {
    const response = await fetch(path, { credentials: "same-origin" });
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return response.json();
  }

  const later = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

  // What the template writes for a figure is a place for it; a figure that is there already moves into the place.
  function replaced(here, next) {
    for (const place of next.querySelectorAll("figure[data-pending]")) {
      const mine = document.getElementById(place.id);
      if (mine) place.replaceWith(mine);
    }
    const open = [...here.querySelectorAll("details")].map((element) => element.open);
    here.replaceChildren(...next.childNodes);
    here.querySelectorAll("details").forEach((element, index) => { element.open = open[index] ?? element.open; });
  }

  function applyPage(html) {
    const made = stream.parsed(html);
    const headings = (page) => [...page.querySelectorAll("#trials-table th")].map((cell) => cell.textContent).join("\n");
    // The first trial brings the table, whose script begins with the page.
    if (headings(made) !== headings(document)) {
      location.reload();
      return false;
    }
    const parts = [["header.title", made.querySelector("header.title")]];
    parts.push(...SECTIONS.map((id) => [`#${id}`, made.getElementById(id)]));
    for (const [selector, next] of parts) {
      const here = document.querySelector(selector);
      if (!here || !next || shown.get(selector) === next.innerHTML) continue;
      shown.set(selector, next.innerHTML);
      replaced(here, next);
    }
    return true;
  }

  async function refresh() {
    if (busy) return;
    busy = true;
    try {
      while (newest > version) {
        const started = performance.now();
        const changes = await ask(`changes?since=${version}`);
        if (!applyPage(changes.html)) return;
        leaderboard.update(changes.rows);
        version = changes.version;
        newest = Math.max(newest, version);
        document.documentElement.dataset.version = version;
        document.querySelectorAll("[data-figure]").forEach((figure) => stale.add(figure.id));
        refreshFigures();
        // A page never keeps a server busy for more than a fifth of the time.
        await later(Math.max(REST, 4 * (performance.now() - started)));
      }
    } catch (error) {
      // The stream says so, and asks again.
      console.info(String(error));
    } finally {
      busy = false;
    }
  }

  let drawing = false;
  let idleUntil = 0;

  async function refreshFigures() {
    if (drawing) return;
    drawing = true;
    try {
      for (let key = wanted(); key; key = wanted()) {
        stale.delete(key);
        const started = performance.now();
        try {
          await show(key);
        } catch (error) {
          console.info(String(error));
        }
        const took = performance.now() - started;
        // What nobody looks at leaves the server as much time as it took.
        if (!visible.has(key)) idleUntil = performance.now() + took;
        rested.set(key, performance.now() + Math.max(REST, 4 * took));
        setTimeout(refreshFigures, Math.max(REST, 4 * took) + 50);
        setTimeout(refreshFigures, took + 50);
      }
    } finally {
      drawing = false;
    }
  }

  // What somebody looks at comes first. Of few trials, whose charts are made quickly, each other chart is made once as
  // well: no empty places below the window, and a page that is captured whole has all.
  function wanted() {
    const now = performance.now();
    const ready = (key) => stale.has(key) && (rested.get(key) ?? 0) <= now;
    const pending = [...document.querySelectorAll("[data-figure][data-pending]")].map((figure) => figure.id);
    const bringsAll = version > 0 && leaderboard.size() <= FEW && now >= idleUntil;
    return [...visible].find(ready) ?? (bringsAll ? pending.find(ready) : undefined);
  }

  async function show(key) {
    const { html, options } = await ask(`figures/${key}`);
    const figure = document.getElementById(key);
    const made = stream.parsed(html);
    const next = made.getElementById(key);
    const labels = (element) => [...element.querySelectorAll("select option")].map((option) => option.label).join("\n");
    const same = !("pending" in figure.dataset) && labels(figure) === labels(next) && options.length > 0
      && figure.querySelector(".panels");
    if (!same) {
      figure.className = next.className;
      figure.replaceChildren(...next.childNodes);
      delete figure.dataset.pending;
    } else {
      figure.querySelector("figcaption").textContent = next.querySelector("figcaption").textContent;
    }
    if (options.length) await charts.put(figure, options);
  }

  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) visible.add(target.id);
      else visible.delete(target.id);
    }
    refreshFigures();
  }, { rootMargin: "300px 0px" });

  document.querySelectorAll("[data-figure]").forEach((figure) => {
    stale.add(figure.id);
    near.observe(figure);
  });
  stream.listen({
    now: ({ html }) => stream.put(document.getElementById("live"), html),
    version: (told) => {
      newest = told.version;
      refresh();
    },
  });
  return { refresh };
})();
