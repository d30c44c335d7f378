// What all live pages share: the stream of events, what is said when it stops, and how new HTML takes its place.
"use strict";

const stream = (() => {
  const { instance } = brought;
  const connection = document.getElementById("connection");
  let source = null;
  let listeners = {};

  function say(text) {
    connection.textContent = text;
    connection.hidden = !text;
  }

  function open() {
    if (source) return;
    source = new EventSource("events");
    source.addEventListener("hello", (event) => {
      // Another server, or a journal that was replaced: what the page holds is of no use any more.
      if (JSON.parse(event.data).instance !== instance) location.reload();
      else say("");
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
    for (const [name, listener] of Object.entries(listeners)) {
      source.addEventListener(name, (event) => listener(JSON.parse(event.data)));
    }
  }

  function close() {
    source?.close();
    source = null;
  }

  // A browser opens six connections to a server at most, so a page that nobody sees keeps none.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);

  // Parsed apart from the page, where no script of it could run; styles come as data and go through the object
  // model, which the policy of the page allows.
  function parsed(html) {
    const made = new DOMParser().parseFromString(html, "text/html");
    for (const element of made.querySelectorAll("[data-style]")) element.style.cssText = element.dataset.style;
    return made;
  }

  function put(holder, html) {
    const made = parsed(html);
    const open = [...holder.querySelectorAll("details")].map((element) => element.open);
    holder.replaceChildren(...made.body.childNodes);
    holder.querySelectorAll("details").forEach((element, index) => { element.open = open[index] ?? element.open; });
  }

  return {
    parsed,
    put,
    listen(chosen) {
      listeners = chosen;
      open();
    },
  };
})();
