/** The line above the timeline: findings, search, steps, zoom, what the colours mean. */

import { fill, h } from "../dom";
import type { FindingPlaces, Page } from "../page";
import { count, plural } from "../text";
import { swatch } from "./details";
import type { Search } from "./search";

export interface ToolbarActions {
  finding(code: string): void;
  look(text: string): Promise<void>;
  match(by: 1 | -1): void;
  step(by: 1 | -1): void;
  zoom(factor: number): void;
  all(): void;
  colour(byChange: boolean): void;
  help(): void;
  leave(): void;
}

const CLASSES = [
  ["compute", "compute"],
  ["hidden", "communication hidden"],
  ["exposed", "exposed"],
  ["copy", "copy"],
  ["control", "control"],
  ["host", "host"],
] as const;
const CHANGES = [
  ["slower", "slower"],
  ["faster", "faster"],
  ["new", "only on one side"],
  ["control", "not clearly changed"],
] as const;
const PAUSE = 180;

export class Toolbar {
  readonly element = h("div", { class: "tl-toolbar", role: "toolbar", "aria-label": "Timeline" });
  readonly input = h("input", {
    type: "search",
    class: "tl-search",
    placeholder: "Search op, scope, source…  /",
    "aria-label": "Search ops by name, scope, source line or category",
    spellcheck: "false",
  });
  private readonly matches = h("span", { class: "tl-matches", role: "status" });
  private readonly arrows = h("span", { class: "choice", hidden: true });
  private readonly findings = h("select", { class: "tl-findings", "aria-label": "Go to a finding" });
  private readonly legend = h("span", { class: "tl-legend" });
  private readonly notice = h("span", { class: "tl-notice", role: "status" });
  private readonly byChange = h(
    "button",
    { type: "button", "aria-pressed": "false", hidden: true },
    "Color by change",
  );
  private timer = 0;

  constructor(private readonly actions: ToolbarActions) {
    const button = (text: string, label: string, onclick: () => void) =>
      h("button", { type: "button", "aria-label": label, title: label, onclick }, text);
    fill(
      this.arrows,
      button("‹", "Previous match (N)", () => actions.match(-1)),
      button("›", "Next match (n)", () => actions.match(1)),
    );
    const steps = h(
      "span",
      { class: "choice" },
      button("‹ step", "Previous step ([)", () => actions.step(-1)),
      button("step ›", "Next step (])", () => actions.step(1)),
    );
    const zoom = h(
      "span",
      { class: "choice" },
      button("−", "Zoom out (S)", () => actions.zoom(1.6)),
      button("+", "Zoom in (W)", () => actions.zoom(1 / 1.6)),
      button("All", "All: show everything (0)", () => actions.all()),
    );
    const help = button("?", "Keys (?)", () => actions.help());
    fill(
      this.element,
      this.input,
      this.arrows,
      this.matches,
      this.findings,
      steps,
      zoom,
      this.byChange,
      this.notice,
      this.legend,
      help,
    );
    this.listen();
  }

  /** Fills the list of findings. */
  list(page: Page): void {
    const all = page.timelines[0]?.findings ?? [];
    const found = all.filter(({ places }) => places.length > 0);
    // Those about memory or the profile itself are at no moment: the overview has them.
    const some = found.length < all.length ? `${count(found.length)} of ` : "";
    this.findings.hidden = found.length === 0;
    const option = ({ code, title }: FindingPlaces) => h("option", { value: code }, `${code}  ${title}`);
    fill(this.findings, h("option", { value: "" }, some + plural(all.length, "finding")), ...found.map(option));
  }

  choose(code: string): void {
    this.findings.value = code;
  }

  /** Offers the colours of a comparison. */
  offerChanges(offered: boolean, chosen: boolean): void {
    this.byChange.hidden = !offered;
    this.byChange.setAttribute("aria-pressed", String(chosen));
    this.explain(chosen);
  }

  told(search: Search): void {
    this.arrows.hidden = search.count === 0;
    fill(this.matches, search.text ? said(search) : null);
  }

  say(notice: string): void {
    if (this.notice.textContent !== notice) this.notice.textContent = notice;
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private explain(byChange: boolean): void {
    const entries = byChange ? CHANGES : CLASSES;
    fill(this.legend, ...entries.map(([name, label]) => h("span", { class: "tl-key" }, swatch(name), label)));
  }

  private look(): Promise<void> {
    this.timer = 0;
    return this.actions.look(this.input.value);
  }

  /** What was typed just now is looked for before its first match is shown. */
  private pending(): Promise<void> {
    if (this.timer === 0) return Promise.resolve();
    clearTimeout(this.timer);
    return this.look();
  }

  private listen(): void {
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => void this.look(), PAUSE);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") void this.pending().then(() => this.actions.match(event.shiftKey ? -1 : 1));
      if (event.key === "Escape") this.actions.leave();
      if (event.key === "Enter" || event.key === "Escape") event.preventDefault();
    });
    this.findings.addEventListener("change", () => {
      if (this.findings.value) this.actions.finding(this.findings.value);
    });
    this.byChange.addEventListener("click", () =>
      this.actions.colour(this.byChange.getAttribute("aria-pressed") !== "true"),
    );
  }
}

function said(search: Search): string {
  if (search.ops === 0) return "nothing found";
  const where = search.whole ? "" : "+";
  const place = search.place > 0 ? `${count(search.place)} / ` : "";
  return search.count === 0
    ? plural(search.ops, "op")
    : `${place}${count(search.count)}${where} in ${plural(search.ops, "op")}`;
}
