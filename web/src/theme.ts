/** Light or dark: as the system says, until the reader chooses. */

const KEY = "counterpoint-theme";
export type Theme = "light" | "dark";

const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function theme(): Theme {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return system.matches ? "dark" : "light";
}

export function startTheme(): void {
  const kept = stored();
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  system.addEventListener("change", tell);
}

export function toggleTheme(): void {
  const next: Theme = theme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // A page opened from a file may be refused storage: the choice lasts as long as the page.
  }
  tell();
}

/** Calls the listener when the colors change; returns how to stop. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The value of a color variable, such as "--compute". */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function tell(): void {
  for (const listener of listeners) listener();
}

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
