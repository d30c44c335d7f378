// Light or dark: what the system prefers, until a person chooses; the choice is remembered where the browser allows it.
"use strict";

const theme = {
  prefersDark: window.matchMedia("(prefers-color-scheme: dark)"),

  isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : this.prefersDark.matches;
  },

  choose(name) {
    document.documentElement.dataset.theme = name;
    try {
      localStorage.setItem("report-theme", name);
    } catch {
      // Private windows and some file pages have no storage: the choice then lasts as long as the page.
    }
    this.announce();
  },

  restore() {
    try {
      const name = localStorage.getItem("report-theme");
      if (name === "dark" || name === "light") document.documentElement.dataset.theme = name;
    } catch {
      // As above.
    }
  },

  announce() {
    document.dispatchEvent(new Event("themechange"));
  },
};

theme.restore();
theme.prefersDark.addEventListener("change", () => theme.announce());
document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme").addEventListener("click", () => theme.choose(theme.isDark() ? "light" : "dark"));
});
