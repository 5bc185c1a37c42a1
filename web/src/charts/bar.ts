/** Stacked bars of a step's parts, and plain meters of shares. */

import { h } from "../dom";
import type { Breakdown } from "../results";
import { ms, percent } from "../text";

export interface Part {
  kind: "compute" | "hidden" | "exposed" | "copy" | "idle";
  title: string;
  ms: number;
}

/** The parts of a step; they add up to it: hidden communication lies under compute. */
export function parts(breakdown: Breakdown): Part[] {
  const compute = breakdown.compute_ms ?? 0;
  const hidden = Math.min(breakdown.collective_hidden_ms ?? 0, compute);
  return [
    { kind: "compute", title: "compute alone", ms: compute - hidden },
    { kind: "hidden", title: "compute that hides a collective", ms: hidden },
    { kind: "exposed", title: "exposed collective", ms: breakdown.collective_exposed_ms ?? 0 },
    { kind: "copy", title: "exposed copy", ms: breakdown.copy_exposed_ms ?? 0 },
    { kind: "idle", title: "idle", ms: breakdown.idle_ms ?? 0 },
  ];
}

/** Each share is rounded alike wherever it stands, as in the text report: their sum may be 99.9%. */
export function sharesOf(of: readonly Part[]): string[] {
  const whole = of.reduce((sum, part) => sum + part.ms, 0);
  return of.map((part) => (part.ms === 0 ? "0" : percent(part.ms / whole)));
}

/** `whole`: the time of the full width; of two bars one above the other, the longer one's. */
export function stackedBar(of: readonly Part[], whole: number, label: string): HTMLElement {
  const total = of.reduce((sum, part) => sum + part.ms, 0);
  const shares = sharesOf(of);
  const shown = of.map((part, at) => ({ ...part, said: shares[at] })).filter((part) => part.ms > 0);
  const text = shown.map((part) => `${part.title} ${ms(part.ms)} ms (${part.said})`).join(", ");
  const pieces = shown.map((part) => {
    const share = part.ms / whole;
    const piece = h("span", {
      class: `piece fill-${part.kind}`,
      title: `${part.title}: ${ms(part.ms)} ms, ${part.said}`,
    });
    piece.style.width = `${share * 100}%`;
    if (share > 0.09) piece.append(h("span", { class: "piece-label" }, percent(part.ms / total, 0)));
    return piece;
  });
  return h(
    "div",
    { class: "stacked", role: "img", "aria-label": `${label}: ${text || "nothing"}` },
    ...pieces,
  );
}

/** A share from 0 to 1 as a thin bar. */
export function meter(share: number, kind = "accent"): HTMLElement {
  const inner = h("span", { class: `fill-${kind}` });
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("span", { class: "meter", "aria-hidden": "true" }, share > 0 && inner);
}
