/** Keys of the timeline: those of Perfetto, arrows for the selection, and their list. */

import { fill, h } from "../dom";

export interface KeyActions {
  zoom(factor: number): void;
  pan(share: number): void;
  all(): void;
  step(by: 1 | -1): void;
  along(by: 1 | -1): void;
  across(by: 1 | -1): void;
  again(by: 1 | -1): void;
  enter(): void;
  escape(): void;
  search(): void;
  match(by: 1 | -1): void;
  help(): void;
}

const LIST: readonly [string, string][] = [
  ["W / S, + / −, wheel", "zoom in and out"],
  ["A / D, drag, Shift + wheel", "move in time"],
  ["0 or F", "show everything"],
  ["[ and ]", "previous and next step"],
  ["← →", "previous and next span of the row"],
  ["↑ ↓", "row or track above and below"],
  ["Enter", "zoom to the selection"],
  [", and .", "previous and next occurrence of the selected op"],
  ["Shift + drag", "mark a range: its length, and time of each class"],
  ["/", "search: op, scope, source line or category"],
  ["n and N", "next and previous match"],
  ["Esc", "clear the range, the selection, the search"],
  ["Alt + wheel, wheel on the names", "scroll the tracks"],
  ["?", "this list"],
];

export function onKey(event: KeyboardEvent, actions: KeyActions): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const by: Record<string, () => void> = {
    w: () => actions.zoom(1 / 1.4),
    "+": () => actions.zoom(1 / 1.4),
    "=": () => actions.zoom(1 / 1.4),
    s: () => actions.zoom(1.4),
    "-": () => actions.zoom(1.4),
    a: () => actions.pan(-0.15),
    d: () => actions.pan(0.15),
    "0": actions.all,
    f: actions.all,
    "[": () => actions.step(-1),
    "]": () => actions.step(1),
    arrowleft: () => actions.along(-1),
    arrowright: () => actions.along(1),
    arrowup: () => actions.across(-1),
    arrowdown: () => actions.across(1),
    ",": () => actions.again(-1),
    ".": () => actions.again(1),
    enter: actions.enter,
    escape: actions.escape,
    "/": actions.search,
    n: () => actions.match(event.shiftKey ? -1 : 1),
    "?": actions.help,
  };
  const action = by[event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action();
}

/** Whether a key is typed into something rather than meant for the timeline. */
export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && target.closest("input, select, textarea, [contenteditable]") !== null
  );
}

export function helpDialog(): HTMLDialogElement {
  const dialog = h("dialog", { class: "tl-help", "aria-label": "Keys of the timeline" });
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const rows = LIST.map(([keys, what]) =>
    h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, keys)), h("td", {}, what)),
  );
  fill(dialog, h("h2", {}, "Keys"), h("table", {}, h("tbody", {}, ...rows)), close);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}
