// A Gantt chart on a canvas. Rectangles are painted into one image by hand: measured, this redraws 100,000 jobs in some
// hundredths of a second where general charting libraries take seconds. All names are set as text, never as HTML.
"use strict";
function pybatschedGantt(box, data) {
  const decode = (text, kind) => new kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const left = decode(data.left, Float64Array), right = decode(data.right, Float64Array);
  const low = decode(data.low, Uint32Array), high = decode(data.high, Uint32Array);
  const job = decode(data.job, Uint32Array), color = decode(data.color, Uint32Array);
  const n = left.length, BLOCK = 512;
  // Rectangles come in the order of their starts; a block knows how far its longest one reaches.
  const reach = new Float64Array(Math.ceil(n / BLOCK));
  for (let i = 0; i < n; i++) reach[(i / BLOCK) | 0] = Math.max(reach[(i / BLOCK) | 0], right[i]);
  const canvas = box.appendChild(document.createElement("canvas"));
  const tip = box.appendChild(document.createElement("div"));
  tip.className = "gantt-tip";
  const WIDTH = data.width, HEIGHT = data.height, X0 = 64, Y0 = 8, W = WIDTH - X0 - 12, H = HEIGHT - Y0 - 44;
  const scale = window.devicePixelRatio || 1;
  canvas.width = WIDTH * scale; canvas.height = HEIGHT * scale;
  canvas.style.width = WIDTH + "px"; canvas.style.height = HEIGHT + "px";
  const pen = canvas.getContext("2d");
  const pw = Math.round(W * scale), ph = Math.round(H * scale);
  const image = pen.createImageData(pw, ph), pixels = new Uint32Array(image.data.buffer);
  const whole = { t0: data.begin, t1: Math.max(data.end, data.begin + 1e-6), p0: 0, p1: data.procs };
  const view = Object.assign({}, whole);

  function firstAfter(time) { // the first rectangle that starts at or after a time
    let a = 0, b = n;
    while (a < b) { const m = (a + b) >> 1; if (left[m] < time) a = m + 1; else b = m; }
    return a;
  }
  function paint() {
    pixels.fill(0xffffffff);
    const sx = pw / (view.t1 - view.t0), sy = ph / (view.p1 - view.p0), end = firstAfter(view.t1);
    for (let block = 0; block * BLOCK < end; block++) {
      if (reach[block] <= view.t0) continue;
      for (let i = block * BLOCK, last = Math.min(end, (block + 1) * BLOCK); i < last; i++) {
        if (right[i] <= view.t0 || high[i] <= view.p0 || low[i] >= view.p1) continue;
        const x1 = Math.max(0, Math.floor((left[i] - view.t0) * sx));
        let x2 = Math.min(pw, Math.floor((right[i] - view.t0) * sx));
        const y1 = Math.max(0, Math.floor((view.p1 - high[i]) * sy));
        let y2 = Math.min(ph, Math.floor((view.p1 - low[i]) * sy));
        if (x2 - x1 > 3) x2--; else if (x2 <= x1) x2 = x1 + 1; // a line of white between neighbours where there is room
        if (y2 - y1 > 3) y2--; else if (y2 <= y1) y2 = y1 + 1;
        const c = color[i];
        for (let y = y1; y < y2; y++) pixels.fill(c, y * pw + x1, y * pw + x2);
      }
    }
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
      pen.fillText(p.toLocaleString("en"), X0 - 8, y + 4);
    }
    pen.save(); pen.translate(12, Y0 + H / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center";
    pen.fillText("processor", 0, 0); pen.restore();
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
    const lines = ["job " + data.jobs[k], data.states[k].toLowerCase().replaceAll("_", " ") + ", " + data.sizes[k] + " processors",
      "submitted " + s(data.submitted[k]) + ", this began " + s(left[i]) + ", ended " + s(right[i]),
      "waited " + s(data.waits[k]) + ", ran " + s(data.runtimes[k])];
    if (data.stories) lines.push(...(data.stories[k] || []));
    return lines.join("\n");
  }
  paint();
  return { view, paint, at, told, n };
}
