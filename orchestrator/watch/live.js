// A live page: its sections, rows and figures are replaced as journals grow, and only those that have changed.
"use strict";

(() => {
  const REST = 1000;
  const FEW = 200;
  const { instance } = document.documentElement.dataset;
  const main = document.getElementById("content");
  const connection = document.getElementById("connection");
  const hasTrials = typeof leaderboard !== "undefined";
  // What the server sent last of each part, which later differs from what the page holds.
  const shown = new Map([...main.children].map((part) => [part.id, part.innerHTML]));
  let seen = "";
  let newest = "";
  let rowsSince = 0;
  let busy = false;
  let rested = 0;
  let source = null;

  function say(text) {
    connection.textContent = text;
    connection.hidden = !text;
  }

  function open() {
    if (source) return;
    source = new EventSource("events");
    source.addEventListener("news", (event) => {
      const news = JSON.parse(event.data);
      // Another server, or a journal that was replaced: what the page holds is of no use any more.
      if (news.instance !== instance) location.reload();
      say("");
      newest = news.version;
      work();
    });
    source.addEventListener("error", () => {
      if (connection.hidden) {
        const time = new Date().toLocaleTimeString("en-GB");
        say(`The server has not answered since ${time}; the page shows what was known by then, and asks again.`);
      }
      // A refusal ends an event source for good; the server may only be starting again.
      if (source?.readyState === EventSource.CLOSED) {
        close();
        setTimeout(open, 2000);
      }
    });
  }

  function close() {
    source?.close();
    source = null;
  }

  // A browser opens six connections to a server at most, so a page that nobody sees keeps none.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);

  async function ask(path) {
    const response = await fetch(path, { credentials: "same-origin" });
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return response.json();
  }

  // Parsed apart from the page, where no script of it could run.
  const parsed = (html) => new DOMParser().parseFromString(html, "text/html");

  // What the template writes for a figure is a place for it; a figure that is there already moves into the place.
  function replaced(here, next) {
    for (const place of next.querySelectorAll("figure[data-pending]")) {
      const mine = document.getElementById(place.id);
      if (mine) place.replaceWith(mine);
    }
    const opened = [...here.querySelectorAll("details")].map((element) => element.open);
    here.replaceChildren(...next.childNodes);
    here.querySelectorAll("details").forEach((element, index) => { element.open = opened[index] ?? element.open; });
  }

  function applyPage(html) {
    const made = parsed(html);
    const headings = (page) => [...page.querySelectorAll("#trials-table th")].map((cell) => cell.textContent).join("\n");
    // The first trial brings the table, whose script begins with the page.
    if (headings(made) !== headings(document)) {
      location.reload();
      return;
    }
    document.querySelector(".links").replaceChildren(...made.querySelector(".links").childNodes);
    const parts = [...made.getElementById("content").children].filter((part) => part.id);
    const ids = new Set(parts.map((part) => part.id));
    [...main.children].filter((part) => !ids.has(part.id)).forEach((part) => part.remove());
    let before = null;
    for (const next of parts) {
      const here = document.getElementById(next.id);
      const changed = shown.get(next.id) !== next.innerHTML;
      shown.set(next.id, next.innerHTML);
      if (!here) {
        if (before) before.after(next);
        else main.prepend(next);
      } else if (changed && !["leaderboard", "connection"].includes(next.id)) {
        here.className = next.className;
        replaced(here, next);
      }
      before = document.getElementById(next.id);
    }
    watchFigures();
  }

  const known = new Set();
  const stale = new Set();
  const visible = new Set();

  async function refresh() {
    const version = newest;
    const changes = await ask(`changes?since=${rowsSince}`);
    applyPage(changes.html);
    if (hasTrials) leaderboard.update(changes.rows);
    rowsSince = changes.since;
    seen = version;
    document.documentElement.dataset.version = version;
    known.forEach((figure) => stale.add(figure.id));
  }

  // What somebody looks at comes first. Of few trials, whose charts are made quickly, each other chart is made once as
  // well, so that a page which is captured whole has all.
  function wanted() {
    const key = [...visible].find((id) => stale.has(id));
    if (key || !hasTrials || !seen || leaderboard.size() > FEW) return key;
    return [...known].find((figure) => "pending" in figure.dataset && stale.has(figure.id))?.id;
  }

  // One request at a time. The page itself rests four times as long as it and its charts took, so that a page never
  // keeps a server busy for more than a fifth of the time; a chart that comes into view does not wait. What is drawn for
  // the first time is drawn once, and prolongs no rest.
  async function work() {
    if (busy) return;
    busy = true;
    try {
      for (;;) {
        const started = performance.now();
        const key = wanted();
        let isFirst = !seen;
        if (newest !== seen && started >= rested) {
          await refresh();
          rested = performance.now() + REST;
        } else if (key) {
          stale.delete(key);
          isFirst = await show(key);
        } else {
          break;
        }
        if (!isFirst) rested += 4 * (performance.now() - started);
      }
    } catch (error) {
      // The stream says so, and asks again.
      console.info(String(error));
      rested = performance.now() + REST;
    } finally {
      busy = false;
    }
    if (newest !== seen || wanted()) setTimeout(work, Math.max(50, rested - performance.now()));
  }

  // Draws a figure, and says whether it was drawn for the first time; one without data stays a place without a size.
  async function show(key) {
    const { html, options } = await ask(`figures/${key}`);
    if (!options.length) return false;
    const figure = document.getElementById(key);
    const next = parsed(html).getElementById(key);
    const isFirst = "pending" in figure.dataset;
    const labels = (element) => [...element.querySelectorAll("select option")].map((option) => option.label).join("\n");
    if (isFirst || labels(figure) !== labels(next)) {
      figure.replaceChildren(...next.childNodes);
      delete figure.dataset.pending;
    } else {
      figure.querySelector("figcaption").textContent = next.querySelector("figcaption").textContent;
    }
    await charts.put(figure, options);
    return isFirst;
  }

  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) visible.add(target.id);
      else visible.delete(target.id);
    }
    work();
  }, { rootMargin: "300px 0px" });

  function watchFigures() {
    for (const figure of document.querySelectorAll("[data-figure]")) {
      if (known.has(figure)) continue;
      known.add(figure);
      stale.add(figure.id);
      near.observe(figure);
    }
  }

  watchFigures();
  open();
})();
