/** The colours of what the CPU draws: each kind in all its shades, as pixels of an image. */

import { DIM } from "./painter";
import type { Colour, Palette } from "./palette";

/** Kinds in the order in which they are stacked: classes, threads of a host, then what changed. */
export const EXPOSED = 2;
export const CONTROL = 4;
export const HOST = 5;
export const SLOWER = 6;
export const FASTER = 7;
export const NEW = 8;
export const KINDS = 9;
export const SHADES = 256;
/** The shade in which a colour is itself. */
export const PLAIN = 128;

/** How far the shades of a kind lie apart, and how much of a stripe is background. */
const APART = 0.16;
const STRIPE = 0.62;

export class Tones {
  readonly background: number;
  readonly text: number;
  /** Pixels by kind and shade; in stripes; and the same of what a search does not find. */
  readonly whole: Uint32Array;
  readonly stripes: Uint32Array;
  readonly dim: Uint32Array;
  readonly dimStripes: Uint32Array;
  private readonly bases: readonly Colour[];

  constructor(readonly palette: Palette) {
    const { rgb } = palette;
    this.bases = [
      rgb.compute,
      rgb.hidden,
      rgb.exposed,
      rgb.copy,
      rgb.control,
      rgb.host,
      rgb.bad,
      rgb.good,
      rgb.accent,
    ];
    this.background = pixel(...rgb.bg);
    this.text = pixel(...rgb.text);
    this.whole = this.table(1, 0);
    this.stripes = this.table(1, STRIPE);
    this.dim = this.table(DIM, 0);
    this.dimStripes = this.table(DIM, STRIPE);
  }

  /** A kind's colour over the background, with an opacity, and as a stripe or not. */
  mixed(kind: number, shade: number, opacity: number, isStripe: boolean): number {
    const base = this.bases[kind] as Colour;
    const { bg } = this.palette.rgb;
    const by = kind > HOST ? 0 : (shade / (SHADES - 1) - 0.5) * APART;
    const share = (isStripe ? 1 - STRIPE : 1) * opacity;
    return pixel(
      bg[0] + (within(base[0] + by) - bg[0]) * share,
      bg[1] + (within(base[1] + by) - bg[1]) * share,
      bg[2] + (within(base[2] + by) - bg[2]) * share,
    );
  }

  private table(opacity: number, stripe: number): Uint32Array {
    return Uint32Array.from({ length: KINDS * SHADES }, (_, at) =>
      this.mixed(Math.floor(at / SHADES), at % SHADES, opacity, stripe > 0),
    );
  }
}

function within(channel: number): number {
  return channel < 0 ? 0 : channel > 1 ? 1 : channel;
}

/** Channels from 0 to 1 as an opaque pixel. */
function pixel(red: number, green: number, blue: number): number {
  const [r, g, b] = [Math.round(red * 255), Math.round(green * 255), Math.round(blue * 255)];
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}
