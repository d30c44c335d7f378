// What the page brings with it, read once; a list that is there several times is written once.
"use strict";

const brought = (() => {
  const { data, lists } = JSON.parse(document.getElementById("data").textContent);

  // Puts the lists back where they belong.
  function whole(value) {
    if (!value || typeof value !== "object") return value;
    if (Array.isArray(value)) {
      value.forEach((item, index) => { if (item && typeof item === "object") value[index] = whole(item); });
      return value;
    }
    if ("$list" in value) return lists[value.$list];
    for (const key of Object.keys(value)) value[key] = whole(value[key]);
    return value;
  }

  return whole(data);
})();
