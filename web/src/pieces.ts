/** Small pieces that several views show: a basis, an unknown figure, a section, settings to copy. */

import { h, type Child } from "./dom";
import type { Context } from "./view";

const BASES: Record<string, string> = {
  measured: "from a recording",
  predicted: "by the simulator: nothing was run",
  "rule of thumb": "an estimate from general experience, for this step neither measured nor simulated",
};

/** How a figure was obtained. */
export function badge(basis: string): HTMLElement {
  const kind = basis.replace(/ /g, "-");
  return h("span", { class: `badge ${basis in BASES ? kind : ""}`, title: BASES[basis] ?? null }, basis);
}

/** "?" where a figure is missing, with the reason. */
export function unknown(reason: string): HTMLElement {
  return h("span", { class: "unknown", title: reason, role: "img", "aria-label": `unknown: ${reason}` }, "?");
}

/** The figure as text, or why it is unknown. */
export function figure(
  value: number | null | undefined,
  text: (value: number) => string,
  reason: string,
): Child {
  return value === null || value === undefined ? unknown(reason) : text(value);
}

export function section(title: string, summary: Child, ...children: Child[]): HTMLElement {
  const heading = h("h2", {}, title);
  return h(
    "section",
    { class: "card" },
    h("header", { class: "card-head" }, heading, h("div", { class: "card-summary" }, summary)),
    ...children,
  );
}

/** What is not there, and why. */
export function missing(...text: Child[]): HTMLElement {
  return h("p", { class: "missing" }, ...text);
}

export function notes(title: string, texts: readonly string[]): HTMLElement | null {
  if (texts.length === 0) return null;
  return section(title, null, h("ul", { class: "notes" }, ...texts.map((text) => h("li", {}, text))));
}

/** Links to the two steps of a page, and to what differs between them. */
export function bothSteps({ page, navigate }: Context): HTMLElement | null {
  const [base, other] = page.timelines;
  if (!base || !other) return null;
  const link = (view: string, text: string) =>
    h("button", { type: "button", class: "link", onclick: () => navigate(view) }, text);
  return h(
    "p",
    {},
    link("timeline", `The steps of ${base.name} and ${other.name}, one above the other`),
    ", and ",
    link("compare", "what differs between them"),
  );
}

export function swatch(kind: string): HTMLElement {
  return h("span", { class: `swatch fill-${kind}`, "aria-hidden": "true" });
}

/** Settings as they go before a command. */
export function settingsLine(xla: readonly [string, string][], env: Record<string, string>): string {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const flags = xla.map(([name, value]) => `--${name}=${value}`);
  return [...variables, ...(flags.length ? [`XLA_FLAGS="${flags.join(" ")}"`] : [])].join(" ");
}

/** Text in fixed-width type with a button that copies it. */
export function copyable(text: string, label: string): HTMLElement {
  const said = h("span", { class: "copied", role: "status" });
  const copy = async () => {
    said.textContent = (await copied(text)) ? "copied" : "select the text to copy it";
    setTimeout(() => (said.textContent = ""), 2000);
  };
  return h(
    "div",
    { class: "copyable" },
    h("code", { class: "copy-text", title: text }, text),
    h("button", { type: "button", class: "quiet", "aria-label": label, onclick: () => void copy() }, "Copy"),
    said,
  );
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Buttons of which one is pressed. */
export function choice<Key extends string>(
  label: string,
  options: readonly { key: Key; text: string }[],
  chosen: Key,
  onChange: (key: Key) => void,
): HTMLElement {
  const buttons = options.map(({ key, text }) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(key === chosen),
        onclick: (event: Event) => {
          for (const button of buttons)
            button.setAttribute("aria-pressed", String(button === event.currentTarget));
          onChange(key);
        },
      },
      text,
    ),
  );
  return h("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
}
