/** The window of time on screen, and how moments become pixels and back. */

/** Picoseconds that fill the screen at the deepest zoom. */
const SHORTEST = 1000;
/** Share of the whole that may be empty on each side of it. */
const MARGIN = 0.05;

export class Viewport {
  start = 0;
  end = 1;
  /** CSS pixels. */
  width = 1;

  constructor(
    private first: number,
    private last: number,
  ) {
    this.all();
  }

  /** Picoseconds of one pixel. */
  get unit(): number {
    return (this.end - this.start) / this.width;
  }

  get length(): number {
    return this.end - this.start;
  }

  limit(first: number, last: number): void {
    this.first = first;
    this.last = last;
    this.set(this.start, this.end);
  }

  x(time: number): number {
    return (time - this.start) / this.unit;
  }

  time(x: number): number {
    return this.start + x * this.unit;
  }

  set(start: number, end: number): void {
    const whole = Math.max(this.last - this.first, SHORTEST);
    const length = Math.min(Math.max(end - start, SHORTEST), whole * (1 + 2 * MARGIN));
    const wanted = (start + end - length) / 2;
    const margin = whole * MARGIN;
    this.start = Math.max(Math.min(wanted, this.first + whole + margin - length), this.first - margin);
    this.end = this.start + length;
  }

  all(): void {
    const margin = Math.max(this.last - this.first, SHORTEST) * MARGIN;
    this.set(this.first - margin, this.last + margin);
  }

  /** `factor` below 1 zooms in; the moment at `x` stays where it is. */
  zoom(factor: number, x = this.width / 2): void {
    const whole = Math.max(this.last - this.first, SHORTEST);
    const length = Math.min(Math.max(this.length * factor, SHORTEST), whole * (1 + 2 * MARGIN));
    const anchor = this.time(x);
    const start = anchor - (x / this.width) * length;
    this.set(start, start + length);
  }

  pan(pixels: number): void {
    const by = pixels * this.unit;
    this.set(this.start + by, this.end + by);
  }

  /** Shows an interval with some time around it. */
  fit(start: number, end: number, share = 0.92): void {
    const length = Math.max(end - start, SHORTEST) / share;
    const middle = (start + end) / 2;
    this.set(middle - length / 2, middle + length / 2);
  }

  /** Pans as little as needed to bring an interval into view. */
  reveal(start: number, end: number): void {
    const margin = this.length * 0.08;
    if (end - start > this.length - 2 * margin) {
      if (end < this.start + margin || start > this.end - margin)
        this.set(start - margin, start - margin + this.length);
    } else if (start < this.start + margin) this.set(start - margin, start - margin + this.length);
    else if (end > this.end - margin) this.set(end + margin - this.length, end + margin);
  }
}
