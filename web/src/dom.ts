/** Builds elements. Text and attributes go in as data: nothing is parsed as HTML. */

import { visible } from "./text";

export type Child = Node | string | number | null | undefined | false;
type Handler = (event: Event) => void;
export type Attributes = Record<string, string | number | boolean | null | undefined | Handler>;

const SVG = "http://www.w3.org/2000/svg";

/** An element; `onclick` and the like are listeners, a null or false attribute is left out. */
export function h<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  return filled(document.createElement(name), attributes, children);
}

export function svg<Name extends keyof SVGElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[Name] {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** Puts these children in place of all others. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...nodes(children));
}

function filled<Kind extends Element>(element: Kind, attributes: Attributes, children: Child[]): Kind {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else element.setAttribute(name, value === true ? "" : visible(String(value)));
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children: Child[]): (Node | string)[] {
  const found: (Node | string)[] = [];
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    found.push(child instanceof Node ? child : visible(String(child)));
  }
  return found;
}
