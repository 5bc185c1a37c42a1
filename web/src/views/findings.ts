/** Findings as cards: the loss, what it could save, the remedy, and where it is worst. */

import { h, type Child } from "../dom";
import { badge, copyable, missing, section, settingsLine } from "../pieces";
import { findingPlace } from "../places";
import type { Explained, Finding } from "../results";
import { ms, percent } from "../text";
import type { Context } from "../view";
import { windowName } from "./window";

const FIRST = 6;

/** What savings are a share of. */
interface Whole {
  ms: number | null;
  name: string;
}

export function findings(step: Explained, context: Context): HTMLElement {
  const whole = { ms: step.steps.window_ms, name: windowName(step.steps) };
  if (step.findings.length === 0) {
    return section(
      "Findings",
      null,
      missing("None: no rule found a loss worth naming in what was recorded."),
    );
  }
  const losses = step.findings.filter((finding) => finding.saves_ms);
  const remarks = step.findings.filter((finding) => !finding.saves_ms);
  const most = Math.max(...losses.map((finding) => finding.saves_ms?.[1] ?? 0), 0);
  const card = (finding: Finding, at: number) => shown(finding, at, whole, most, context);
  const rest = losses.slice(FIRST);
  return section(
    "Findings",
    losses.length > 1 ? "what each could save; they overlap, so they do not add up" : null,
    h("ol", { class: "losses" }, ...losses.slice(0, FIRST).map(card)),
    rest.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, `${rest.length} smaller`),
        h("ol", { class: "losses" }, ...rest.map(card)),
      ),
    remarks.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, `${remarks.length} without a saving in milliseconds`),
        h("ol", { class: "losses" }, ...remarks.map(card)),
      ),
  );
}

function shown(
  finding: Finding,
  at: number,
  whole: Whole,
  most: number,
  context: Context,
): HTMLElement {
  const open = findingPlace(context, finding.code);
  const settings = settingsLine(Object.entries(finding.settings.xla), finding.settings.env);
  const title = h("h3", {}, finding.title);
  const body: Child[] = [
    h("p", { class: "detail" }, finding.detail),
    h("p", { class: "remedy" }, h("span", { class: "key" }, "Remedy"), finding.remedy),
    settings && copyable(settings, `Copy the settings of ${finding.code}`),
    finding.doubt && h("p", { class: "doubt" }, h("span", { class: "key" }, "Doubt"), finding.doubt),
    finding.evidence.length > 0 && evidence(finding),
  ];
  const head = h(
    "div",
    { class: "loss-head" },
    h("span", { class: "code", title: `counterpoint explain-code ${finding.code}` }, finding.code),
    badge(finding.basis),
    open && h("button", { type: "button", class: "link", onclick: open }, "Show in the timeline"),
  );
  return h(
    "li",
    { class: "loss", id: `finding-${at}` },
    saving(finding, whole, most),
    h("div", { class: "loss-text" }, title, head, ...body),
  );
}

function saving(finding: Finding, whole: Whole, most: number): HTMLElement {
  if (!finding.saves_ms) return h("div", { class: "saving none" }, "no saving in ms");
  const [low, high] = finding.saves_ms;
  const of = finding.mean_step_ms ? { ms: finding.mean_step_ms, name: "the mean step" } : whole;
  const bar = h("span", { class: "reach-bar", "aria-hidden": "true" }, h("span"));
  const inner = bar.firstElementChild as HTMLElement;
  inner.style.left = `${(low / (most || 1)) * 100}%`;
  inner.style.width = `${((high - low) / (most || 1)) * 100}%`;
  return h(
    "div",
    { class: "saving" },
    h("span", { class: "saving-words" }, "could save"),
    h("b", {}, `${ms(low)} to ${ms(high)} ms`),
    h(
      "span",
      { class: "muted" },
      of.ms ? `up to ${percent(high / of.ms)} of ${of.name}` : `share of ${of.name} unknown`,
    ),
    bar,
  );
}

function evidence(finding: Finding): HTMLElement {
  const rows = finding.evidence.map((one) =>
    h(
      "li",
      {},
      h("span", { class: "num" }, one.ms === null ? "" : `${ms(one.ms)} ms`),
      h("span", { class: "path" }, one.what),
    ),
  );
  return h(
    "details",
    {},
    h("summary", {}, `Evidence (${finding.evidence.length})`),
    h("ul", { class: "evidence" }, ...rows),
  );
}
