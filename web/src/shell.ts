/** What surrounds the views: the title, the tabs, the theme, and the command that made the page. */

import { fill, h } from "./dom";
import type { Page } from "./page";
import { badge, copyable } from "./pieces";
import { compared, saidBasis, tuned } from "./results";
import { visible } from "./text";
import { onTheme, theme, toggleTheme } from "./theme";
import type { View } from "./view";

export interface Shell {
  /** Where the views are mounted. */
  panel: HTMLElement;
  /** Shows the page's title and tabs. */
  update(page: Page, views: readonly View[], chosen: View | null): void;
  /** Tells what the app does meanwhile, or why the page lacks something; nothing: all is there. */
  say(message: string, busy: boolean): void;
}

export function buildShell(onChoose: (view: View) => void): Shell {
  const title = h("h1", { class: "title" });
  const bases = h("div", { class: "bases" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views" });
  const command = h("div", { class: "command" });
  const panel = h("div", { id: "panel", class: "panel", role: "tabpanel", tabindex: -1 });
  const status = h("div", { class: "status", role: "status" });
  const version = h("span", { class: "version" });
  const top = h(
    "div",
    { class: "top" },
    h("span", { class: "brand", title: "Counterpoint" }, mark(), h("span", {}, "Counterpoint")),
    title,
    status,
    bases,
    themeButton(),
  );
  const skip = h(
    "a",
    { class: "skip", href: "#panel", onclick: (event: Event) => (event.preventDefault(), panel.focus()) },
    "Skip to the view",
  );
  // Beside what the file holds: its blocks are elements of the body.
  document.body.append(
    skip,
    h("header", { class: "shell" }, top, h("div", { class: "bar" }, tabs, command)),
    h("main", {}, panel),
    h("footer", { class: "foot" }, version),
  );
  tabs.addEventListener("keydown", (event) => walk(tabs, event));
  return {
    panel,
    say(message, busy) {
      fill(status, message && busy ? `${message} …` : message);
      status.classList.toggle("busy", busy);
    },
    update(page, views, chosen) {
      document.title = `${visible(page.title)} · Counterpoint`;
      fill(title, page.title);
      title.title = visible(page.title);
      fill(bases, ...basesOf(page).map(badge));
      const inside = tabs.contains(document.activeElement);
      fill(tabs, ...views.map((view) => tab(view, view === chosen, onChoose)));
      if (inside && chosen) document.getElementById(`tab-${chosen.id}`)?.focus();
      fill(command, page.command ? copyable(page.command, "Copy the command that made this page") : null);
      fill(version, `Counterpoint ${page.version}`);
      panel.dataset.view = chosen?.id ?? "";
      if (chosen) panel.setAttribute("aria-labelledby", `tab-${chosen.id}`);
    },
  };
}

function basesOf(page: Page): string[] {
  if (!tuned(page) && compared(page) && page.timelines.length > 1)
    return [...new Set(page.timelines.map(({ basis }) => basis))];
  const said = saidBasis(page);
  return said === null ? [] : [said];
}

function tab(view: View, chosen: boolean, onChoose: (view: View) => void): HTMLElement {
  return h(
    "button",
    {
      type: "button",
      role: "tab",
      id: `tab-${view.id}`,
      "aria-selected": String(chosen),
      "aria-controls": "panel",
      tabindex: chosen ? 0 : -1,
      onclick: () => onChoose(view),
    },
    view.title,
  );
}

/** Arrows go from tab to tab and choose it, as the pattern for tabs asks. */
function walk(tabs: HTMLElement, event: KeyboardEvent): void {
  const all = [...tabs.querySelectorAll("button")];
  const now = all.indexOf(document.activeElement as HTMLButtonElement);
  const step: Record<string, number> = {
    ArrowRight: now + 1,
    ArrowLeft: now - 1,
    Home: 0,
    End: all.length - 1,
  };
  const next = step[event.key];
  if (next === undefined || now < 0) return;
  event.preventDefault();
  const id = all[(next + all.length) % all.length]?.id ?? "";
  document.getElementById(id)?.click();
  document.getElementById(id)?.focus();
}

function themeButton(): HTMLElement {
  const button = h("button", { type: "button", class: "quiet theme", onclick: toggleTheme });
  const say = () => {
    const next = theme() === "dark" ? "light" : "dark";
    fill(button, next === "dark" ? "Dark" : "Light");
    button.setAttribute("aria-label", `Switch to ${next} colors`);
  };
  onTheme(say);
  say();
  return button;
}

/** Two voices, one above the other. */
function mark(): HTMLElement {
  return h("span", { class: "mark-logo", "aria-hidden": "true" }, h("i"), h("i"), h("i"));
}
