/** Colours of the style sheet as numbers, for what is drawn rather than styled. */

const NAMES = [
  "bg",
  "panel",
  "text",
  "muted",
  "line",
  "accent",
  "focus",
  "compute",
  "hidden",
  "exposed",
  "copy",
  "control",
  "host",
  "idle",
  "good",
  "bad",
  "measured",
  "predicted",
] as const;

export type ColourName = (typeof NAMES)[number];
export type Colour = readonly [number, number, number];

export interface Palette {
  css: Record<ColourName, string>;
  rgb: Record<ColourName, Colour>;
  isDark: boolean;
  /** Of the page's letters against the smallest: what is drawn grows with them. */
  scale: number;
  font: string;
}

const SMALLEST = 14;
const FONT = 11;

export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const css = {} as Record<ColourName, string>;
  const rgb = {} as Record<ColourName, Colour>;
  for (const name of NAMES) {
    css[name] = style.getPropertyValue(`--${name}`).trim() || "#888888";
    rgb[name] = parsed(css[name]);
  }
  const scale = Math.max((parseFloat(style.fontSize) || SMALLEST) / SMALLEST, 1);
  const font = `${Math.round(FONT * scale)}px ${style.getPropertyValue("--sans") || "sans-serif"}`;
  return { css, rgb, isDark: luminance(rgb.bg) < 0.5, scale, font };
}

/** Calls back when the theme changes; returns how to stop. */
export function onTheme(changed: () => void): () => void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class"] });
  system.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", changed);
  };
}

/** Where black and white are read equally well: above and below it, the better one has 4.5:1 or more. */
const BETWEEN = 0.179;

/** Text that can be read on a colour. */
export function inkOn(colour: Colour): string {
  return luminance(colour) > BETWEEN ? "#000000" : "#ffffff";
}

function luminance([red, green, blue]: Colour): number {
  const linear = (part: number) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

/** Any CSS colour, from 0 to 1. */
function parsed(css: string): Colour {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  if (!context) return [0.5, 0.5, 0.5];
  context.fillStyle = css;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
  return [(red ?? 0) / 255, (green ?? 0) / 255, (blue ?? 0) / 255];
}
