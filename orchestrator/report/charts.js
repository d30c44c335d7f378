// The charts: drawn by plotly when they come near the window, in the colours of the stylesheet, redrawn for dark.
"use strict";

const charts = (() => {
  const { figures, lists } = brought;

  // A long list is in the data once; charts refer to it by its number.
  function whole(value) {
    if (!value || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(whole);
    if ("$list" in value) return lists[value.$list];
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, whole(inner)]));
  }

  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const config = {
    // Another width is answered below: Plotly's own answer leaves a legend where it was, over the curves.
    responsive: false,
    displaylogo: false,
    displayModeBar: coarse ? false : "hover",
    // No chart leaves the page: the button would open a company's address, past the page's policy.
    showSendToCloud: false,
    plotlyServerURL: "",
    modeBarButtonsToRemove: [
      "sendChartToCloud", "sendDataToCloud", "select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d",
    ],
  };
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);

  // A colour is the name of a custom property; only an element can tell what light-dark() makes of it.
  function look(name, seen) {
    if (!seen.has(name)) {
      probe.style.color = `var(${name})`;
      seen.set(name, getComputedStyle(probe).color);
    }
    return seen.get(name);
  }

  function painted(value, seen) {
    if (typeof value === "string") return /^--[a-z]+\d*$/.test(value) ? look(value, seen) : value;
    if (Array.isArray(value)) return value.map((item) => painted(item, seen));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item, seen)]));
    }
    return value;
  }

  function template() {
    const lines = {
      gridcolor: "--line", linecolor: "--line", zeroline: false, zerolinecolor: "--strong", tickcolor: "--line",
      tickfont: { color: "--muted" }, title: { font: { size: 13, color: "--muted" }, standoff: 8 }, automargin: true,
    };
    return {
      layout: {
        font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: "--ink" },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        margin: { l: 56, r: 16, t: 12, b: 36 },
        xaxis: lines,
        yaxis: lines,
        coloraxis: { colorbar: { tickfont: { color: "--muted" }, title: { font: { size: 12, color: "--muted" } } } },
        legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 }, maxheight: 0.8 },
        hoverlabel: { bgcolor: "--surface", bordercolor: "--strong", font: { color: "--ink" } },
        hovermode: "closest",
        dragmode: coarse ? false : "zoom",
      },
    };
  }

  function sentence(panel) {
    const names = [panel.layout.xaxis, panel.layout.yaxis].map((axis) => axis.title?.text).filter(Boolean);
    const points = panel.data.reduce((sum, trace) => sum + (trace.x?.length ?? 0), 0);
    return `${panel.caption} Chart of ${names.join(" and ") || "lines"}, ${points} points.`.trim();
  }

  function clicked(event) {
    const text = event.points[0]?.text;
    if (typeof text === "string") leaderboard.find(text);
  }

  // Traces have the ids of their trials; the leaderboard has the rest, once for all charts.
  function withTrials(trace) {
    if (!trace.hovertemplate?.includes("%{hovertext}")) return trace;
    return { ...trace, hovertext: trace.text.map((id) => leaderboard.about(id)) };
  }

  async function drawPanel(plot, panel) {
    plot.hidden = !panel.data.length;
    if (plot.hidden) {
      plot.dataset.drawn = "";
      return;
    }
    const seen = new Map();
    size(plot, panel);
    const layout = { ...panel.layout, template: template(), autosize: true, uirevision: "kept" };
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", sentence(panel));
    const first = !plot.classList.contains("js-plotly-plot");
    const isResized = !first && plot._fullLayout.width !== plot.clientWidth;
    const traces = painted(panel.data, seen).map(withTrials);
    await Plotly.react(plot, traces, painted(layout, seen), config);
    // Plotly has placed the legend by the margins of the width before; this places it by the new ones.
    if (isResized) await Plotly.relayout(plot, { "legend.x": 0 });
    if (first) plot.on("plotly_click", clicked);
    plot.dataset.drawn = "";
  }

  // A long legend gets room of its own, so that it does not leave a narrow chart without any.
  function size(plot, panel) {
    const entries = panel.data.filter((trace) => trace.name && trace.showlegend !== false).length;
    const lines = panel.layout.showlegend === false ? 0 : Math.ceil(entries / Math.max(1, Math.floor(plot.clientWidth / 180)));
    plot.style.height = lines > 3 ? `calc(var(--height) + ${(lines - 3) * 24}px)` : "";
  }

  // Panels are there before they are drawn, at their height, so that nothing jumps.
  function layOut(figure, panels) {
    const holder = figure.querySelector(".panels");
    while (holder.children.length > panels.length) {
      Plotly.purge(holder.lastElementChild.querySelector(".plot"));
      holder.lastElementChild.remove();
    }
    while (holder.children.length < panels.length) {
      holder.insertAdjacentHTML("beforeend", '<div class="panel"><p class="panel-caption"></p><div class="plot"></div></div>');
    }
    return [...holder.children];
  }

  function draw(figure) {
    const options = figures[figure.dataset.figure];
    if (!options) return Promise.resolve();
    const { panels } = whole(options[Number(figure.querySelector("select")?.value ?? 0)] ?? options[0]);
    figure.dataset.drawn = "";
    return Promise.all(layOut(figure, panels).map((holder, index) => {
      holder.querySelector(".panel-caption").textContent = panels[index].caption;
      return drawPanel(holder.querySelector(".plot"), panels[index]);
    }));
  }

  const all = [...document.querySelectorAll("[data-figure]:not([data-pending])")];
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target);
    }
  }, { rootMargin: "500px 0px" });

  for (const figure of all) {
    const first = whole(figures[figure.dataset.figure]?.[0]);
    if (first) figure.querySelectorAll(".plot").forEach((plot, index) => size(plot, first.panels[index]));
    near.observe(figure);
    figure.querySelector("select")?.addEventListener("change", () => draw(figure));
  }
  const drawAll = () => Promise.all(all.map(draw));

  // What is far away is drawn while nobody waits for anything, so that a page which is captured or saved whole has all.
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 200));
  async function drawTheRest() {
    const figure = all.find((each) => !("drawn" in each.dataset));
    if (!figure) return;
    near.unobserve(figure);
    await draw(figure);
    idle(drawTheRest);
  }
  if (document.readyState === "complete") idle(drawTheRest);
  else window.addEventListener("load", () => idle(drawTheRest));

  const redraw = () => all.filter((figure) => "drawn" in figure.dataset).forEach(draw);
  document.addEventListener("themechange", redraw);

  let width = window.innerWidth;
  let waiting = 0;
  window.addEventListener("resize", () => {
    // The bars of a phone's browser come and go, and change the height alone.
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 100);
  });
  window.addEventListener("beforeprint", drawAll);

  return {
    drawAll,
    // Shows other values in a figure, or the first ones of a figure that the page did not bring.
    async put(figure, options) {
      // A page that is served gets plotly last.
      if (document.readyState !== "complete") {
        await new Promise((resolve) => window.addEventListener("load", resolve, { once: true }));
      }
      figures[figure.dataset.figure] = options;
      if (!all.includes(figure)) {
        all.push(figure);
        figure.addEventListener("change", () => draw(figure));
      }
      return draw(figure);
    },
  };
})();
