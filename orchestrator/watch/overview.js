// The start page: its cards and the curves of all experiments are replaced when a journal has grown.
"use strict";

stream.listen({
  cards: ({ html, options }) => {
    stream.put(document.getElementById("cards"), html);
    document.getElementById("beside").hidden = !options.length;
    if (options.length) charts.put(document.getElementById("side"), options);
  },
});
