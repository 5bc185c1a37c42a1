/** Scales of the drawings: linear and logarithmic, with ticks. */

/** How much larger the page's text is than at its smallest: drawings grow with it. */
export function textScale(): number {
  return parseFloat(getComputedStyle(document.documentElement).fontSize) / 14;
}

export interface Scale {
  /** Position of a value, from 0 to 1. */
  at(value: number): number;
  ticks: number[];
}

/** From tick to tick: 1, 2 or 5 times a power of ten, at least so much. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((factor) => factor * power >= least) ?? 10) * power;
}

export function linear(low: number, high: number, wanted = 6): Scale {
  const span = high - low || 1;
  const step = roundStep((span / wanted) * 0.8);
  const ticks: number[] = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) {
    ticks.push(Math.abs(tick) < step * 1e-9 ? 0 : Number(tick.toPrecision(12)));
  }
  return { at: (value) => (value - low) / span, ticks };
}

/** Powers of ten from below the smallest to above the largest value. */
export function logarithmic(values: readonly number[]): Scale {
  const positive = values.filter((value) => value > 0);
  const low = positive.length ? Math.floor(Math.log10(Math.min(...positive))) : -3;
  const high = Math.max(positive.length ? Math.ceil(Math.log10(Math.max(...positive))) : 0, low + 1);
  const ticks = Array.from({ length: high - low + 1 }, (_, at) => Number((10 ** (low + at)).toPrecision(1)));
  return { at: (value) => (Math.log10(value) - low) / (high - low), ticks };
}
