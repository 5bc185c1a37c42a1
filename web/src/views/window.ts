/** What the figures of a step describe, where no step was recorded whole. */

const NAMES: Record<string, string> = {
  step: "the step",
  run: "one run of the program",
  profile: "the whole profile",
};

export function windowName({ window }: { window: string }): string {
  return NAMES[window] ?? window;
}
