// A Gantt chart on a canvas. Rectangles are painted into one image by hand: measured, this redraws 100,000 jobs in some
// hundredths of a second where general charting libraries take seconds. All names are set as text, never as HTML.
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
function pybatschedGantt(box, data) {
  const decode = (text, kind) => new kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const left = decode(data.left, Float64Array), right = decode(data.right, Float64Array);
  const low = decode(data.low, Uint32Array), high = decode(data.high, Uint32Array);
  const job = decode(data.job, Uint32Array), look = decode(data.look, Uint8Array);
  const note = data.notes && decode(data.note, Uint32Array), palette = data.palette;
  const states = decode(data.states, Uint8Array), sizes = decode(data.sizes, Uint32Array); // these are of each job
  const submitted = decode(data.submitted, Float64Array), waits = decode(data.waits, Float64Array);
  const runtimes = decode(data.runtimes, Float64Array);
  const n = left.length, BLOCK = 512, KIND = 7, HELD = 3, LOAD = 4, URGENT = 8;
  // Rectangles come in the order of their starts; a block knows how far its longest one reaches.
  const reach = new Float64Array(Math.ceil(n / BLOCK));
  for (let i = 0; i < n; i++) reach[(i / BLOCK) | 0] = Math.max(reach[(i / BLOCK) | 0], right[i]);
  const urgent = []; // these are painted last, so that none is hidden
  for (let i = 0; i < n; i++) if (look[i] & URGENT) urgent.push(i);
  const canvas = box.appendChild(document.createElement("canvas"));
  const tip = box.appendChild(document.createElement("div"));
  tip.className = "gantt-tip";
  const WIDTH = data.width, HEIGHT = data.height, X0 = 64, Y0 = 8, H = HEIGHT - Y0 - 44;
  const bands = data.bands || [], W = WIDTH - X0 - (bands.length ? 104 : 32); // names of clusters are on the right
  const scale = window.devicePixelRatio || 1;
  canvas.width = WIDTH * scale; canvas.height = HEIGHT * scale;
  canvas.style.width = WIDTH + "px"; canvas.style.height = HEIGHT + "px";
  const pen = canvas.getContext("2d");
  const pw = Math.round(W * scale), ph = Math.round(H * scale);
  const image = pen.createImageData(pw, ph), pixels = new Uint32Array(image.data.buffer);
  const bar = pybatschedBars(pixels, pw, ph, Math.max(1, Math.round(scale)));
  const whole = { t0: data.begin, t1: Math.max(data.end, data.begin + 1e-6), p0: 0, p1: data.procs };
  const view = Object.assign({}, whole);

  function firstAfter(time) { // the first rectangle that starts at or after a time
    let a = 0, b = n;
    while (a < b) { const m = (a + b) >> 1; if (left[m] < time) a = m + 1; else b = m; }
    return a;
  }
  function paint() {
    pixels.fill(0xffffffff);
    bands.forEach(([, from, to], k) => { // every other one is tinted
      const y = (p) => Math.min(Math.max(Math.floor((view.p1 - p) / (view.p1 - view.p0) * ph), 0), ph);
      if (k % 2) pixels.fill(0xfffaf3ee, y(to) * pw, y(from) * pw);
    });
    const sx = pw / (view.t1 - view.t0), sy = ph / (view.p1 - view.p0), end = firstAfter(view.t1);
    const isSeen = (i) => right[i] > view.t0 && left[i] < view.t1 && high[i] > view.p0 && low[i] < view.p1;
    function one(i) {
      const x1 = Math.floor((left[i] - view.t0) * sx), y1 = Math.floor((view.p1 - high[i]) * sy);
      let x2 = Math.floor((right[i] - view.t0) * sx), y2 = Math.floor((view.p1 - low[i]) * sy);
      // A line of white between neighbours where there is room; a load and its job are one.
      if (x2 - x1 > 3) { if ((look[i] & KIND) !== LOAD) x2--; } else if (x2 <= x1) x2 = x1 + 1;
      if (y2 - y1 > 3) y2--; else if (y2 <= y1) y2 = y1 + 1;
      bar(look[i], palette[job[i] % palette.length], x1, y1, x2, y2);
    }
    for (let block = 0; block * BLOCK < end; block++) {
      if (reach[block] <= view.t0) continue;
      for (let i = block * BLOCK, last = Math.min(end, (block + 1) * BLOCK); i < last; i++)
        if (isSeen(i) && !(look[i] & URGENT)) one(i);
    }
    for (const i of urgent) if (isSeen(i)) one(i);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.putImageData(image, Math.round(X0 * scale), Math.round(Y0 * scale));
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.strokeStyle = pen.fillStyle = "#444";
    pen.strokeRect(X0 - 0.5, Y0 - 0.5, W + 1, H + 1);
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    for (const t of ticks(view.t0, view.t1, 8)) {
      const x = X0 + (t - view.t0) / (view.t1 - view.t0) * W;
      pen.fillRect(x, Y0 + H, 1, 4);
      pen.fillText(t.toLocaleString("en", { maximumFractionDigits: 6 }), x, Y0 + H + 16);
    }
    pen.fillText("time (s)", X0 + W / 2, Y0 + H + 34);
    pen.textAlign = "right";
    for (const p of ticks(view.p0, view.p1, 6)) {
      const y = Y0 + (view.p1 - p) / (view.p1 - view.p0) * H;
      pen.fillRect(X0 - 5, y, 4, 1);
      pen.fillText(processor(p).toLocaleString("en"), X0 - 8, y + 4);
    }
    pen.textAlign = "left";
    for (const [name, from, to] of bands) {
      const y = (p) => Y0 + (view.p1 - Math.min(Math.max(p, view.p0), view.p1)) / (view.p1 - view.p0) * H;
      if (from > view.p0 && from < view.p1) pen.fillRect(X0, Math.round(y(from)), W + 12, 1);
      if (y(from) - y(to) >= 12) pen.fillText(shortened(name, 90), X0 + W + 8, (y(from) + y(to)) / 2 + 4);
    }
    pen.save(); pen.translate(12, Y0 + H / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center";
    pen.fillText("processor", 0, 0); pen.restore();
  }
  function processor(row) { // which one has a row: its own, unless clusters had to be put together
    let found = [0, 0];
    for (const part of data.rows || []) if (part[0] <= row) found = part;
    return found[1] + row - found[0];
  }
  function shortened(text, most) {
    let cut = text;
    while (cut && pen.measureText(cut === text ? text : cut + "…").width > most) cut = cut.slice(0, -1);
    return cut === text ? text : cut + "…";
  }
  function ticks(from, to, wanted) {
    const raw = (to - from) / wanted, power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw), found = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(Math.round(at / step) * step);
    return found;
  }
  let waiting = false;
  function redraw() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; paint(); }); } }
  function place(event) {
    const at = canvas.getBoundingClientRect();
    const x = event.clientX - at.left - X0, y = event.clientY - at.top - Y0;
    return { x, y, t: view.t0 + x / W * (view.t1 - view.t0), p: view.p1 - y / H * (view.p1 - view.p0) };
  }
  function zoomed(low, high, about, factor, least, most, smallest) {
    const span = Math.min(Math.max((high - low) * factor, smallest), most - least), share = (about - low) / (high - low);
    const start = Math.min(Math.max(about - share * span, least), most - span);
    return [start, start + span];
  }
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const here = place(event), factor = Math.pow(1.0015, event.deltaY);
    if (!event.shiftKey) [view.t0, view.t1] = zoomed(view.t0, view.t1, here.t, factor, whole.t0, whole.t1, 1e-3);
    if (event.shiftKey || event.ctrlKey) [view.p0, view.p1] = zoomed(view.p0, view.p1, here.p, factor, whole.p0, whole.p1, 1);
    redraw();
  }, { passive: false });
  let grabbed = null;
  canvas.addEventListener("mousedown", (event) => { grabbed = { at: place(event), view: Object.assign({}, view) }; });
  window.addEventListener("mouseup", () => { grabbed = null; });
  canvas.addEventListener("dblclick", () => { Object.assign(view, whole); redraw(); });
  canvas.addEventListener("mouseleave", () => { tip.style.display = "none"; });
  canvas.addEventListener("mousemove", (event) => {
    const here = place(event);
    if (grabbed) {
      const old = grabbed.view, dt = (here.x - grabbed.at.x) / W * (old.t1 - old.t0), dp = (here.y - grabbed.at.y) / H * (old.p1 - old.p0);
      const t = Math.min(Math.max(old.t0 - dt, whole.t0), whole.t1 - (old.t1 - old.t0));
      const p = Math.min(Math.max(old.p0 + dp, whole.p0), whole.p1 - (old.p1 - old.p0));
      view.t1 = t + (old.t1 - old.t0); view.t0 = t; view.p1 = p + (old.p1 - old.p0); view.p0 = p;
      redraw();
      return;
    }
    const i = at(here.t, here.p);
    if (i < 0 || here.x < 0 || here.x > W || here.y < 0 || here.y > H) { tip.style.display = "none"; return; }
    tip.textContent = told(i);
    tip.style.display = "block";
    tip.style.left = Math.min(here.x + X0 + 14, WIDTH - 340) + "px";
    tip.style.top = here.y + Y0 + 14 + "px";
  });
  function at(t, p) { // the rectangle at a point, -1 if there is none
    for (let block = ((firstAfter(t + 1e-9) - 1) / BLOCK) | 0; block >= 0; block--) {
      if (reach[block] <= t) continue;
      for (let i = Math.min(n, (block + 1) * BLOCK) - 1; i >= block * BLOCK; i--)
        if (left[i] <= t && t < right[i] && low[i] <= p && p < high[i]) return i;
    }
    return -1;
  }
  function told(i) {
    const k = job[i], s = (x) => x.toLocaleString("en", { maximumFractionDigits: 2 }) + " s";
    const lines = ["job " + data.jobs[k] + (look[i] & URGENT ? ", urgent" : "")];
    if (note && note[i]) lines.push(data.notes[note[i]]);
    const kind = look[i] & KIND, word = kind === HELD ? ", held" : kind === LOAD ? ", loading" : "";
    const spent = word ? word + " from " + s(left[i]) + " to " + s(right[i])
      : ", this began " + s(left[i]) + ", ended " + s(right[i]);
    lines.push(data.words[states[k]] + ", " + sizes[k] + " processors",
      "submitted " + s(submitted[k]) + spent,
      "waited " + s(waits[k]) + ", ran " + s(runtimes[k]));
    if (data.stories) lines.push(...(data.stories[k] || []));
    return lines.join("\n");
  }
  function explain() { // the legend: a small bar and its meaning for each look that is there
    const legend = box.appendChild(document.createElement("div"));
    legend.className = "gantt-legend";
    for (const [kind, meaning] of data.legend) {
      const entry = legend.appendChild(document.createElement("span"));
      const sample = entry.appendChild(document.createElement("canvas"));
      const w = sample.width = Math.round(34 * scale), h = sample.height = Math.round(16 * scale);
      sample.style.width = "34px"; sample.style.height = "16px";
      const drawn = sample.getContext("2d"), small = drawn.createImageData(w, h);
      pybatschedBars(new Uint32Array(small.data.buffer), w, h, Math.max(1, Math.round(scale)))(kind, palette[0], 0, 0, w, h);
      drawn.putImageData(small, 0, 0);
      entry.append(meaning);
    }
  }
  if (data.legend.length) explain();
  paint();
  return { view, paint, at, told, n, processor };
}
