/** The address: #view=timeline&step=7. Frames of notebooks may refuse a history; then it is only kept here. */

export interface Router {
  params(): URLSearchParams;
  /** A new entry of the history. */
  go(view: string, params: Record<string, string>): void;
  /** The same entry, changed. */
  change(params: Record<string, string | null>): void;
}

export function startRouter(onChange: () => void): Router {
  let hash = location.hash.slice(1);
  const write = (next: string, how: "pushState" | "replaceState") => {
    hash = next;
    try {
      history[how](null, "", `#${next}`);
    } catch {
      // A frame without an address of its own: the view changes all the same.
    }
  };
  const followed = () => {
    const now = location.hash.slice(1);
    if (now === hash) return;
    hash = now;
    onChange();
  };
  window.addEventListener("hashchange", followed);
  window.addEventListener("popstate", followed);
  return {
    params: () => new URLSearchParams(hash),
    go(view, params) {
      write(new URLSearchParams({ view, ...params }).toString(), "pushState");
      onChange();
    },
    change(params) {
      const next = new URLSearchParams(hash);
      for (const [name, value] of Object.entries(params)) {
        if (value === null) next.delete(name);
        else next.set(name, value);
      }
      write(next.toString(), "replaceState");
    },
  };
}
