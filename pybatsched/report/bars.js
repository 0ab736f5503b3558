// How the bars of a Gantt chart are painted: each by hand into one image.
"use strict";
// Gives a function that paints a bar into an image of so many pixels; `unit` is the width of a fine line. A bar may stick
// out of the image. The looks are those of bars.py: 1 is suspended, 2 lost, 3 held, 4 a load, and 8 more if the job is
// urgent.
function pybatschedBars(pixels, width, height, unit) {
  const WHITE = 0xffffffff, LOST = 0xffb0b0b0, HELD = 0xff505050, URGENT = 0xff101010;
  function fill(c, x1, y1, x2, y2) {
    x1 = Math.max(0, x1); x2 = Math.min(width, x2); y2 = Math.min(height, y2);
    if (x1 < x2) for (let y = Math.max(0, y1); y < y2; y++) pixels.fill(c, y * width + x1, y * width + x2);
  }
  function frame(c, x1, y1, x2, y2, thick) {
    fill(c, x1, y1, x2, y1 + thick); fill(c, x1, y2 - thick, x2, y2);
    fill(c, x1, y1, x1 + thick, y2); fill(c, x2 - thick, y1, x2, y2);
  }
  function stripes(c, x1, y1, x2, y2, wide, every) { // slanting ones, the same wherever the bar begins
    x1 = Math.max(0, x1); x2 = Math.min(width, x2); y2 = Math.min(height, y2);
    for (let y = Math.max(0, y1); y < y2; y++)
      for (let x = x1 - (x1 + y) % every; x < x2; x += every) fill(c, Math.max(x1, x), y, Math.min(x2, x + wide), y + 1);
  }
  function hatching(c, x1, y1, x2, y2, wide, every) { // stripes that slant the other way
    x1 = Math.max(0, x1); x2 = Math.min(width, x2); y2 = Math.min(height, y2);
    for (let y = Math.max(0, y1); y < y2; y++)
      for (let x = x1 - (x1 + every * height - y) % every; x < x2; x += every) fill(c, Math.max(x1, x), y, Math.min(x2, x + wide), y + 1);
  }
  function paler(c) {
    const mixed = (shift) => Math.round(255 - 0.4 * (255 - (c >>> shift & 255))) << shift;
    return (mixed(0) | mixed(8) | mixed(16) | 0xff000000) >>> 0;
  }
  return function bar(look, c, x1, y1, x2, y2) {
    const kind = look & 7, least = Math.min(x2 - x1, y2 - y1);
    if (kind === 3) {
      fill(HELD, x1, y1, x2, y2);
      stripes(WHITE, x1, y1, x2, y2, 2 * unit, 6 * unit); // breaks the frame into dashes
      if (least >= 3 * unit) fill(WHITE, x1 + unit, y1 + unit, x2 - unit, y2 - unit);
      return;
    }
    if ((look & 8) && least < 5 * unit) { fill(URGENT, x1, y1, x2, y2); return; }
    fill(kind === 2 ? LOST : kind === 1 ? paler(c) : c, x1, y1, x2, y2);
    if (kind === 1) stripes(c, x1, y1, x2, y2, unit, 8 * unit);
    if (kind === 4) hatching(WHITE, x1, y1, x2, y2, 2 * unit, 6 * unit);
    if (!(look & 8)) return;
    frame(URGENT, x1, y1, x2, y2, 2 * unit);
    if (least < 9 * unit) return;
    frame(WHITE, x1 + 2 * unit, y1 + 2 * unit, x2 - 2 * unit, y2 - 2 * unit, unit); // seen on dark colours as well
    const side = Math.min(12 * unit, Math.floor(least * 0.7)); // a triangle in the corner
    for (let k = 0; k < side; k++) {
      fill(WHITE, x1, y1 + k, x1 + side - k + unit, y1 + k + 1);
      fill(URGENT, x1, y1 + k, x1 + side - k, y1 + k + 1);
    }
  };
}
// What is smaller than some points of the image: each gives colour to a point by how much of it it covers, so that what
// is seen of very many jobs is what they took, and not which of them was painted last.
function pybatschedDust(pixels, width, height) {
  const ink = new Float32Array(width * height * 3), isTouched = new Uint8Array(width * height);
  function add(c, x, y, wide, tall) {
    const red = 255 - (c & 255), green = 255 - (c >>> 8 & 255), blue = 255 - (c >>> 16 & 255);
    const x1 = Math.max(0, x), x2 = Math.min(width, x + wide), y1 = Math.max(0, y), y2 = Math.min(height, y + tall);
    for (let row = Math.floor(y1); row < y2; row++) {
      const part = Math.min(y2, row + 1) - Math.max(y1, row);
      for (let column = Math.floor(x1); column < x2; column++) {
        const share = part * (Math.min(x2, column + 1) - Math.max(x1, column)), at = row * width + column;
        ink[3 * at] += share * red; ink[3 * at + 1] += share * green; ink[3 * at + 2] += share * blue;
        isTouched[at] = 1;
      }
    }
  }
  function settle() { // onto the image, as it lies on its ground
    for (let at = 0; at < isTouched.length; at++) {
      if (!isTouched[at]) continue;
      const ground = pixels[at], under = (k) => Math.max(0, Math.round((ground >>> 8 * k & 255) - ink[3 * at + k]));
      pixels[at] = (0xff000000 | under(2) << 16 | under(1) << 8 | under(0)) >>> 0;
    }
    ink.fill(0); isTouched.fill(0);
  }
  return { add, settle };
}
